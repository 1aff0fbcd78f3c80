//! JSON as a tree whose numbers keep their text.
//!
//! For looking at definitions, not for the way of a call: each level is scanned once per level above
//! it, which is why the depth is bounded.

use lyceum_wire::{MAX_DEPTH, Object, elements, encode};

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tree {
    /// A number, `true`, `false` or `null`, as written.
    Plain(String),
    Text(String),
    List(Vec<Tree>),
    /// In the order written; no name twice.
    Members(Vec<(String, Tree)>),
}

impl Tree {
    /// Reads JSON.
    pub(crate) fn parse(raw: &str) -> Result<Tree, String> {
        Tree::parse_at(raw, MAX_DEPTH)
    }

    fn parse_at(raw: &str, depth: usize) -> Result<Tree, String> {
        let raw = raw.trim_matches([' ', '\t', '\n', '\r']);
        if depth == 0 {
            return Err(format!("nested more than {MAX_DEPTH} deep"));
        }
        match raw.as_bytes().first() {
            Some(b'{') => {
                let object = Object::parse(raw.as_bytes())?;
                let member = |(name, raw): (&str, &str)| {
                    Tree::parse_at(raw, depth - 1).map(|value| (name.to_owned(), value))
                };
                object.iter().map(member).collect::<Result<_, _>>().map(Tree::Members)
            }
            Some(b'[') => {
                let elements = elements(raw).ok_or("a list that cannot be read")?;
                let element =
                    |raw: &serde_json::value::RawValue| Tree::parse_at(raw.get(), depth - 1);
                elements.into_iter().map(element).collect::<Result<_, _>>().map(Tree::List)
            }
            Some(b'"') => {
                serde_json::from_str(raw).map(Tree::Text).map_err(|error| error.to_string())
            }
            _ => match serde_json::from_str::<&serde_json::value::RawValue>(raw) {
                Ok(plain) => Ok(Tree::Plain(plain.get().to_owned())),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// A member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Tree> {
        let Tree::Members(members) = self else { return None };
        members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Tree::Text(text) = self { Some(text) } else { None }
    }

    /// Members in the order of their names, at every level.
    pub(crate) fn sorted(self) -> Tree {
        match self {
            Tree::List(elements) => Tree::List(elements.into_iter().map(Tree::sorted).collect()),
            Tree::Members(members) => {
                let sorted = |(name, value): (String, Tree)| (name, value.sorted());
                let mut members: Vec<(String, Tree)> = members.into_iter().map(sorted).collect();
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                Tree::Members(members)
            }
            other => other,
        }
    }

    /// Without any white space.
    pub(crate) fn compact(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out, None);
        String::from_utf8(out).expect("it is made of strings")
    }

    /// One member or element per line.
    pub(crate) fn pretty(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out, Some(0));
        String::from_utf8(out).expect("it is made of strings")
    }

    fn write(&self, out: &mut Vec<u8>, indent: Option<usize>) {
        match self {
            Tree::Plain(raw) => out.extend_from_slice(raw.as_bytes()),
            Tree::Text(text) => encode::write_str(out, text),
            Tree::List(elements) => {
                write_all(out, indent, [b'[', b']'], elements, |out, element, indent| {
                    element.write(out, indent);
                });
            }
            Tree::Members(members) => {
                write_all(out, indent, [b'{', b'}'], members, |out, (name, value), indent| {
                    encode::write_str(out, name);
                    out.extend_from_slice(if indent.is_some() { b": " } else { b":" });
                    value.write(out, indent);
                });
            }
        }
    }
}

fn write_all<T>(
    out: &mut Vec<u8>,
    indent: Option<usize>,
    [open, close]: [u8; 2],
    items: &[T],
    write: impl Fn(&mut Vec<u8>, &T, Option<usize>),
) {
    let new_line = |out: &mut Vec<u8>, indent: Option<usize>| {
        if let Some(indent) = indent {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b' ', 2 * indent));
        }
    };
    out.push(open);
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        new_line(out, indent.map(|indent| indent + 1));
        write(out, item, indent.map(|indent| indent + 1));
    }
    if !items.is_empty() {
        new_line(out, indent);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_text_and_members_their_order() {
        let raw =
            r#"{"z":1.0,"a":{"y":[1e400,{},[]],"b":123456789012345678901234567890},"t":"é\n"}"#;
        let tree = Tree::parse(raw).unwrap();
        assert_eq!(tree.compact(), raw);
        assert_eq!(Tree::parse(&tree.pretty()).unwrap(), tree);
        assert_eq!(
            tree.sorted().compact(),
            r#"{"a":{"b":123456789012345678901234567890,"y":[1e400,{},[]]},"t":"é\n","z":1.0}"#
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        for raw in ["", "{", "tru", r#"{"a":1,"a":2}"#, "[1,]", "1 2", r#"["\ud800"]"#, &deep] {
            assert!(Tree::parse(raw).is_err(), "{raw}");
        }
    }
}
