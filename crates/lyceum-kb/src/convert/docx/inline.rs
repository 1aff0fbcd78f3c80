//! The text of a paragraph: pieces with emphasis and links, written so that Markdown reads the same.

/// How a piece of text looks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Look {
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) link: Option<String>,
}

/// Pieces of text in order; neighbours that look alike are one.
#[derive(Debug, Default)]
pub(super) struct Inline(Vec<(Look, String)>);

impl Inline {
    pub(super) fn push(&mut self, look: &Look, text: &str) {
        match self.0.last_mut() {
            Some((last, so_far)) if last == look => so_far.push_str(text),
            _ => self.0.push((look.clone(), text.to_owned())),
        }
    }

    pub(super) fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// As Markdown, on one line unless there are hard breaks.
    pub(super) fn markdown(&self) -> String {
        let mut line = String::new();
        for (look, text) in &self.0 {
            // Marks must touch the text they mark, so blanks stay outside.
            let inner = text.trim();
            let before = &text[..text.len() - text.trim_start().len()];
            line.push_str(before);
            if !inner.is_empty() {
                line.push_str(&marked(look, &escape(inner)));
                line.push_str(&text[before.len() + inner.len()..]);
            }
        }
        escape_start(line.trim()).replace('\n', "\\\n")
    }
}

fn marked(look: &Look, text: &str) -> String {
    let mark = match (look.bold, look.italic) {
        (true, true) => "***",
        (true, false) => "**",
        (false, true) => "*",
        (false, false) => "",
    };
    let text = format!("{mark}{text}{mark}");
    match &look.link {
        Some(target) => {
            let target = target.replace(['<', '>', '\n', '\r'], "");
            format!("[{text}](<{target}>)")
        }
        None => text,
    }
}

/// Text in which nothing means anything to Markdown.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside_word =
            before.is_alphanumeric() && rest.peek().is_some_and(|c| c.is_alphanumeric());
        if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<') || (c == '_' && !inside_word) {
            escaped.push('\\');
        }
        escaped.push(c);
        before = c;
    }
    escaped
}

/// The same for marks that only count at the start of a line.
fn escape_start(line: &str) -> String {
    let n_digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let list_number = n_digits > 0 && line[n_digits..].starts_with(['.', ')']);
    if list_number {
        return format!("{}\\{}", &line[..n_digits], &line[n_digits..]);
    }
    let mark = line.starts_with(['#', '>', '-', '+', '=', '~', '|']);
    if mark { format!("\\{line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Parser};

    use super::*;

    #[test]
    fn marks_touch_their_text_and_neighbours_join() {
        let bold = Look { bold: true, ..Look::default() };
        let mut inline = Inline::default();
        inline.push(&Look::default(), "a ");
        inline.push(&bold, "b ");
        inline.push(&bold, "c ");
        inline.push(&Look { italic: true, ..Look::default() }, "d");
        inline.push(&Look { link: Some("https://x.test/a b".to_owned()), ..bold }, "e");
        assert_eq!(inline.markdown(), "a **b c** *d*[**e**](<https://x.test/a b>)");
        assert_eq!(inline.plain(), "a b c de");
    }

    #[test]
    fn plain_text_stays_plain_text() {
        for text in [
            "1. one",
            "12) x",
            "# no heading",
            "- no list",
            "> no quote",
            "a*b*c",
            "_x_",
            "snake_case_name",
            "`code`",
            "[a](b)",
            "<b>",
            "\\",
            "+ x",
            "~~~",
            "| a |",
            "* * *",
            "=== ",
            "![i](x)",
            "1.5 is a number",
        ] {
            let mut inline = Inline::default();
            inline.push(&Look::default(), text);
            let markdown = inline.markdown();
            let read: String = Parser::new(&markdown)
                .map(|event| match event {
                    Event::Text(text) => text.to_string(),
                    Event::Start(_) | Event::End(_) => String::new(),
                    other => format!("{other:?}"),
                })
                .collect();
            assert_eq!(read, text.trim(), "{markdown}");
        }
    }
}
