//! Front matter: YAML between two lines of dashes at the start of a Markdown file.
//!
//! Written in the part of YAML that is also JSON, so that whatever was written is read back the same.

use serde_json::{Map, Value};

use super::{Converted, tidy_title};
use crate::MimeType;
use crate::write::MAX_TAGS;

/// More than this is no front matter.
const MAX_BYTES: usize = 64 << 10;

/// Takes front matter and text apart. What cannot be read as a table of values stays in the text:
/// nothing is lost.
pub(super) fn split(text: &str) -> Converted {
    let whole = || Converted {
        body: text.to_owned(),
        mime_type: MimeType::Markdown,
        ..Converted::default()
    };
    let Some((yaml, body)) = find(text) else { return whole() };
    let Some(mut table) = read(yaml) else { return whole() };
    let title = match table.remove("title") {
        Some(Value::String(title)) => tidy_title(&title),
        Some(other) => tidy_title(&other.to_string()),
        None => None,
    };
    let tags = table.remove("tags").map(tags).unwrap_or_default();
    Converted { title, tags, metadata: table, ..Converted { body: body.to_owned(), ..whole() } }
}

/// Front matter that `split` reads back as the same title, tags and metadata; empty when there is
/// nothing to say.
pub fn write_front_matter(
    title: Option<&str>,
    tags: &[String],
    metadata: &Map<String, Value>,
) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: Value| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let bare = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain);
        let name = if bare { name.to_owned() } else { Value::from(name).to_string() };
        lines.push_str(&format!("{name}: {value}\n"));
    };
    if let Some(title) = title {
        line("title", title.into());
    }
    if !tags.is_empty() {
        line("tags", tags.into());
    }
    for (name, value) in metadata {
        // These two have their own places.
        if !matches!(name.as_str(), "title" | "tags") {
            line(name, value.clone());
        }
    }
    if lines.is_empty() { lines } else { format!("---\n{lines}---\n") }
}

/// The YAML and what follows it.
fn find(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix("---")?;
    let start = after
        .strip_prefix('\n')
        .or_else(|| after.trim_start_matches([' ', '\t']).strip_prefix('\n'))?;
    let mut at = 0;
    for line in start.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return Some((&start[..at], &start[at + line.len()..]));
        }
        at += line.len();
        if at > MAX_BYTES {
            break;
        }
    }
    None
}

fn read(yaml: &str) -> Option<Map<String, Value>> {
    if yaml.trim().is_empty() {
        return Some(Map::new());
    }
    match serde_saphyr::from_str(yaml) {
        Ok(Value::Object(table)) => Some(table),
        _ => None,
    }
}

/// Tags as a list, or as a text with commas; each once, in order.
fn tags(value: Value) -> Vec<String> {
    let named = match value {
        Value::Array(items) => items.iter().filter_map(tag).collect(),
        Value::String(text) => text.split(',').map(str::to_owned).collect(),
        other => tag(&other).into_iter().collect::<Vec<_>>(),
    };
    let mut tags: Vec<String> = Vec::new();
    for name in named.iter().filter_map(|name| tidy_title(name)) {
        if !tags.contains(&name) {
            tags.push(name);
        }
        // More than a document may have; it is refused when it is written.
        if tags.len() > MAX_TAGS {
            break;
        }
    }
    tags
}

fn tag(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::is_hidden;

    #[test]
    fn front_matter_becomes_title_tags_and_metadata() {
        let text = "---\ntitle: Über uns\ntags:\n  - a\n  - b\n  - a\nauthor: {name: Z}\ndate: 2024-01-02\nn: 3\n---\n\nText\n";
        let split = split(text);
        assert_eq!(split.title.as_deref(), Some("Über uns"));
        assert_eq!(split.tags, ["a", "b"]);
        let metadata = json!({"author": {"name": "Z"}, "date": "2024-01-02", "n": 3});
        assert_eq!(Value::from(split.metadata), metadata);
        assert_eq!(split.body, "\nText\n");
    }

    #[test]
    fn tags_come_in_several_spellings() {
        for (yaml, expected) in [
            ("tags: a, b,,a", vec!["a", "b"]),
            ("tags: [1, true, x]", vec!["1", "true", "x"]),
            ("tags: 7", vec!["7"]),
            ("tags: ", vec![]),
            ("tags: {a: b}", vec![]),
        ] {
            assert_eq!(split(&format!("---\n{yaml}\n---\n")).tags, expected, "{yaml}");
        }
    }

    #[test]
    fn what_is_no_front_matter_stays_in_the_text() {
        let bomb = "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n---\n";
        let deep = format!("---\na: {}\n---\n", "[".repeat(30_000));
        for text in [
            "---\nnever closed",
            "---\n- a\n- b\n---\nx",
            "---\n: : :\n  - [\n---\nx",
            "----\na: b\n---\n",
            "--- x\na: b\n---\n",
            "a\n---\nb: c\n---\n",
            "---",
            "",
            bomb,
            &deep,
            "---\njust words\n---\nx",
        ] {
            assert_eq!(split(text).body, *text, "{text:.60}");
        }
    }

    #[test]
    fn an_empty_front_matter_is_none() {
        assert_eq!(split("---\n---\nx").body, "x");
        assert_eq!(split("--- \n...\nx").body, "x");
        assert_eq!(write_front_matter(None, &[], &Map::new()), "");
    }

    fn visible(pattern: &'static str) -> impl Strategy<Value = String> {
        pattern.prop_filter("no document has such a title", |text| !text.chars().any(is_hidden))
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[-:#&*!|>'\"%@` \n0-9a-f~.]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            title in visible("[^\\p{C}\\s]{1,20}"),
            tags in prop::collection::btree_set(visible("[^\\p{C}\\s]{1,8}"), 0..4),
            metadata in prop::collection::btree_map(any::<String>(), value(), 0..4),
            body in any::<String>(),
        ) {
            let tags: Vec<String> = tags.into_iter().collect();
            let mut metadata: Map<String, Value> = metadata.into_iter().collect();
            metadata.remove("title");
            metadata.remove("tags");
            let text = write_front_matter(Some(&title), &tags, &metadata) + &body;
            let split = split(&text);
            prop_assert_eq!(split.title, Some(title), "{}", text);
            prop_assert_eq!(split.tags, tags);
            prop_assert_eq!(split.metadata, metadata, "{}", text);
            prop_assert_eq!(split.body, body);
        }
    }
}
