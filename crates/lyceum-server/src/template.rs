//! Resource templates: families of resources, read by a function that gets the URI's variables.

use std::fmt;
use std::future::Future;

use lyceum_wire::Revision;

use crate::call::Call;
use crate::completion::{Completer, Completers, Completing};
use crate::error::ToolError;
use crate::json::Object;
use crate::page::List;
use crate::resource::{About, IntoContents};
use crate::shelf::Listed;
use crate::uri_template::{TemplateError, UriTemplate, Variables};

/// A family of resources.
pub struct ResourceTemplate {
    uri_template: String,
    parsed: UriTemplate,
    pub(crate) about: About,
    pub(crate) completers: Completers,
}

/// A family of resources at the URIs that match `uri_template`.
///
/// # Errors
/// When the template is more than `{name}` and `{+name}` between fixed text.
pub fn template<R, F, Fut>(
    uri_template: impl Into<String>,
    name: impl Into<String>,
    read: F,
) -> Result<ResourceTemplate, TemplateError>
where
    R: IntoContents + 'static,
    F: Fn(Call, Variables) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let uri_template = uri_template.into();
    let parsed = UriTemplate::parse(&uri_template)?;
    let about = About::new(name.into(), read);
    Ok(ResourceTemplate { uri_template, parsed, about, completers: Completers::default() })
}

impl ResourceTemplate {
    /// Suggests values for a variable.
    pub fn complete<F, Fut>(mut self, variable: impl Into<String>, suggest: F) -> Self
    where
        F: Fn(Completing) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<String>> + Send + 'static,
    {
        self.completers.insert(variable.into(), Completer::new(suggest));
        self
    }

    pub(crate) fn matches(&self, uri: &str) -> Option<Variables> {
        self.parsed.matches(uri)
    }

    pub(crate) fn has_variable(&self, name: &str) -> bool {
        self.parsed.names().any(|known| known == name)
    }
}

impl Listed for ResourceTemplate {
    const LIST: List = List::Templates;
    const MEMBER: &'static str = "resourceTemplates";

    fn key(&self) -> &str {
        &self.uri_template
    }

    fn describe(&self, revision: Revision, out: &mut Vec<u8>) {
        let mut item = Object::open(out);
        item.field("uriTemplate", &self.uri_template);
        self.about.write(&mut item, revision);
        item.close();
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceTemplate")
            .field("uri_template", &self.uri_template)
            .finish_non_exhaustive()
    }
}
