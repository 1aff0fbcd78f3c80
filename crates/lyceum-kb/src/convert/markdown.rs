//! Markdown files: front matter in front, and a title from the first heading if none is given.

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

use super::{Converted, front_matter, tidy_title};

pub(super) fn convert(text: &str) -> Converted {
    let mut converted = front_matter::split(text);
    if converted.title.is_none() {
        converted.title = first_heading(&converted.body);
    }
    converted
}

/// The heading a text opens with, if it is one of the first level.
fn first_heading(text: &str) -> Option<String> {
    let mut events = Parser::new(text);
    match events.next() {
        Some(Event::Start(Tag::Heading { level: HeadingLevel::H1, .. })) => {}
        _ => return None,
    }
    let mut title = String::new();
    for event in events {
        match event {
            Event::End(TagEnd::Heading(_)) => break,
            Event::Text(text) | Event::Code(text) => title.push_str(&text),
            Event::SoftBreak | Event::HardBreak => title.push(' '),
            _ => {}
        }
    }
    tidy_title(&title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, title: Option<&str>) {
        assert_eq!(convert(text).title.as_deref(), title, "{text}");
    }

    #[test]
    fn the_title_is_that_of_the_front_matter_or_the_first_heading() {
        check("---\ntitle: A\n---\n# B", Some("A"));
        check("---\ntags: [x]\n---\n\n# B `c` *d*\ntext", Some("B c d"));
        check("# B #\ntext", Some("B"));
        check("B\n===", Some("B"));
        check("text\n\n# B", None);
        check("## B", None);
        check("#", None);
        check("", None);
    }
}
