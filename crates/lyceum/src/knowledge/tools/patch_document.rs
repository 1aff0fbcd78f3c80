//! `patch_document`: other words for passages of a document.

use lyceum_kb::{Change, DocPath, Error, Replacement, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::arguments::Safety;
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::whole::Whole;

pub(crate) const NAME: &str = "patch_document";

const MAX_EDITS: usize = 100;

const DESCRIPTION: &str = "\
Replaces one passage of a document by another, or with edits several at once (all or none). old_str must \
occur exactly once, character for character, line breaks included: copy it from \
get_document_for_rewrite. NOT_FOUND_IN_CONTENT: it does not occur, so read the text again. AMBIGUOUS: it \
occurs more than once (details name the lines), so add text around it. To add text, replace a passage by \
itself and the new text; to remove one, give an empty new_str. To rewrite most of a document use \
update_document.";

/// What to replace.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The document_id.
    path: String,
    /// The passage to replace; it must occur exactly once.
    #[schemars(length(min = 1))]
    old_str: Option<String>,
    /// What takes its place.
    new_str: Option<String>,
    /// Several replacements instead of old_str and new_str, each applied to the text the one before
    /// left.
    #[schemars(length(min = 1, max = 100))]
    edits: Option<Vec<Edit>>,
    /// Write only if the document is at this revision.
    expected_revision: Option<Whole>,
    /// Any unique text; repeating the call with it changes nothing and answers the same.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
}

/// One replacement.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The passage to replace; it must occur exactly once.
    #[schemars(length(min = 1))]
    old_str: String,
    /// What takes its place.
    new_str: String,
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// The write these arguments ask for.
pub(crate) fn change(arguments: Arguments) -> Result<(DocPath, Change, Safety)> {
    let safety = Safety::read(
        &arguments,
        arguments.expected_revision,
        arguments.idempotency_key.as_deref(),
    )?;
    let path = DocPath::parse(&arguments.path)?;
    let edits = match (arguments.old_str, arguments.new_str, arguments.edits) {
        (Some(old), Some(new), None) => vec![Replacement { old, new }],
        (None, None, Some(edits)) if (1..=MAX_EDITS).contains(&edits.len()) => edits
            .into_iter()
            .map(|Edit { old_str: old, new_str: new }| Replacement { old, new })
            .collect(),
        (None, None, Some(_)) => return Err(Error::invalid("edits: give 1 to 100")),
        (_, _, Some(_)) => {
            return Err(Error::invalid("edits replace old_str and new_str; give one or the other"));
        }
        (_, _, None) => {
            return Err(Error::invalid("give old_str and new_str (it may be empty), or edits"));
        }
    };
    Ok((path, Change::Patch(edits), safety))
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::write_tool(desk, NAME, DESCRIPTION, change)
        .title("Patch a document")
        .destructive()
        .closed_world()
}
