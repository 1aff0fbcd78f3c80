//! URI templates (RFC 6570, level 1 and `{+path}`), matched against URIs.
//!
//! Matching never goes back: each variable ends where the text after it first appears, so the time
//! is linear in the URI. `{name}` takes no slash; `{+name}` does.

use std::collections::BTreeMap;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UriTemplate {
    /// What comes before the first variable.
    head: String,
    variables: Vec<Variable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    name: String,
    takes_slashes: bool,
    /// The text that follows it.
    then: String,
}

/// The values of a template's variables, percent-decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

/// Why a text is not a template this server can match.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// A brace without its partner.
    #[error("a brace is not closed in the URI template")]
    Brace,
    /// An operator beyond level 1, or an empty or odd name.
    #[error("only {{name}} and {{+name}} can be matched, not {{{0}}}")]
    Expression(String),
    /// Two variables with nothing in between.
    #[error("variable {0} follows another without text between them")]
    Adjacent(String),
    /// A name that appears twice.
    #[error("variable {0} appears twice")]
    Repeated(String),
}

impl UriTemplate {
    pub(crate) fn parse(template: &str) -> Result<Self, TemplateError> {
        let mut pieces = template.split('{');
        let head = pieces.next().unwrap_or_default();
        if head.contains('}') {
            return Err(TemplateError::Brace);
        }
        let mut variables: Vec<Variable> = Vec::new();
        for piece in pieces {
            let (expression, then) = piece.split_once('}').ok_or(TemplateError::Brace)?;
            if then.contains('}') {
                return Err(TemplateError::Brace);
            }
            let variable = Variable::parse(expression, then)?;
            match variables.last() {
                Some(last) if last.then.is_empty() => {
                    return Err(TemplateError::Adjacent(variable.name));
                }
                _ if variables.iter().any(|other| other.name == variable.name) => {
                    return Err(TemplateError::Repeated(variable.name));
                }
                _ => variables.push(variable),
            }
        }
        Ok(Self { head: head.to_owned(), variables })
    }

    /// The names of the variables, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.name.as_str())
    }

    /// The values for which the template gives `uri`, or `None` when there are none.
    pub(crate) fn matches(&self, uri: &str) -> Option<Variables> {
        let mut rest = uri.strip_prefix(self.head.as_str())?;
        let mut values = BTreeMap::new();
        for (index, variable) in self.variables.iter().enumerate() {
            let last = index + 1 == self.variables.len();
            let end = if last {
                rest.strip_suffix(variable.then.as_str())?.len()
            } else {
                rest.find(variable.then.as_str())?
            };
            let value = &rest[..end];
            if value.is_empty() || (!variable.takes_slashes && value.contains('/')) {
                return None;
            }
            values.insert(variable.name.clone(), percent_decode(value));
            rest = &rest[end + variable.then.len()..];
        }
        rest.is_empty().then_some(Variables(values))
    }
}

impl Variable {
    fn parse(expression: &str, then: &str) -> Result<Self, TemplateError> {
        let (name, takes_slashes) = match expression.strip_prefix('+') {
            Some(name) => (name, true),
            None => (expression, false),
        };
        let is_name_character = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if name.is_empty() || !name.chars().all(is_name_character) {
            return Err(TemplateError::Expression(expression.to_owned()));
        }
        Ok(Self { name: name.to_owned(), takes_slashes, then: then.to_owned() })
    }
}

impl Variables {
    /// The value of a variable; empty if the template has no such variable.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Decodes `%41`; what is no valid escape or no UTF-8 stays as it is.
fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = if *first == b'%' { tail.get(..2).and_then(hex_byte) } else { None };
        out.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()
}

#[cfg(test)]
mod tests;
