//! Which revision brought which member: the one table the encoders ask.
//!
//! A member is written for revisions not older than its constant here.

use lyceum_wire::Revision;

/// `audio` content.
pub(crate) const AUDIO: Revision = Revision::V2025_03_26;
/// Hints on tools: read-only, destructive, idempotent, open world.
pub(crate) const TOOL_ANNOTATIONS: Revision = Revision::V2025_03_26;
/// `capabilities.completions`; before, the method simply existed.
pub(crate) const COMPLETIONS_CAPABILITY: Revision = Revision::V2025_03_26;
/// `message` in progress notifications.
pub(crate) const PROGRESS_MESSAGE: Revision = Revision::V2025_03_26;
/// Human-readable `title` beside `name`.
pub(crate) const TITLES: Revision = Revision::V2025_06_18;
/// `structuredContent` in results and `outputSchema` in tools.
pub(crate) const STRUCTURED_CONTENT: Revision = Revision::V2025_06_18;
/// `resource_link` content.
pub(crate) const RESOURCE_LINKS: Revision = Revision::V2025_06_18;
/// `_meta` on tools, resources, prompts and content.
pub(crate) const ITEM_META: Revision = Revision::V2025_06_18;
/// `annotations.lastModified`.
pub(crate) const LAST_MODIFIED: Revision = Revision::V2025_06_18;
/// `icons`.
pub(crate) const ICONS: Revision = Revision::V2025_11_25;
/// `description` and `websiteUrl` of an implementation.
pub(crate) const IMPLEMENTATION_DETAILS: Revision = Revision::V2025_11_25;
/// Arguments that do not fit are a tool's error, which a model can read and correct (SEP-1303).
pub(crate) const ARGUMENT_ERRORS_AS_RESULTS: Revision = Revision::V2025_11_25;
/// Everything of the stateless era: `resultType`, caching hints, unrestricted schemas.
pub(crate) const MODERN: Revision = Revision::V2026_07_28;
/// The one revision with tasks in its core; the modern era has them as an extension.
pub(crate) const CORE_TASKS: Revision = Revision::V2025_11_25;
