//! `word/document.xml` as Markdown: one pass over its events, with what is open kept on the side.

use super::inline::{Inline, Look};
use super::styles::Styles;
use super::xml::{Element, Node, walk};
use crate::convert::{MAX_OUTPUT, tidy_text, tidy_title};
use crate::{Error, Result};

/// Tables in tables in tables.
const MAX_TABLES: usize = 16;

pub(super) struct Text {
    pub(super) markdown: String,
    /// The first heading of the first level.
    pub(super) title: Option<String>,
}

pub(super) fn markdown(xml: &str, styles: &Styles) -> Result<Text> {
    let mut body = Body::new(styles);
    walk(xml, |node| match node {
        Node::Open(element) => body.open(element),
        Node::Close(name) => body.close(name),
        Node::Text(text) => body.text(text),
    })?;
    if body.markdown.len() > MAX_OUTPUT {
        return Err(Error::invalid("the Word file holds too much text; split it"));
    }
    Ok(Text { markdown: tidy_text(&body.markdown), title: body.title })
}

struct Body<'a> {
    styles: &'a Styles,
    markdown: String,
    title: Option<String>,
    paragraph: Paragraph,
    look: Look,
    in_run: bool,
    in_text: bool,
    /// How many elements are open within one whose text appears elsewhere or is gone.
    skipped: usize,
    tables: Vec<Table>,
    /// Level and kind of the list item just written; `None` after anything else.
    list_item: Option<(usize, bool)>,
}

#[derive(Default)]
struct Paragraph {
    inline: Inline,
    style: Option<String>,
    list: Option<String>,
    level: Option<String>,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl<'a> Body<'a> {
    fn new(styles: &'a Styles) -> Body<'a> {
        Body {
            styles,
            markdown: String::new(),
            title: None,
            paragraph: Paragraph::default(),
            look: Look::default(),
            in_run: false,
            in_text: false,
            skipped: 0,
            tables: Vec::new(),
            list_item: None,
        }
    }

    fn open(&mut self, element: &Element<'_>) {
        if self.skipped > 0 || matches!(element.name(), "Fallback" | "moveFrom" | "del") {
            self.skipped += 1;
            return;
        }
        match element.name() {
            "p" => self.paragraph = Paragraph::default(),
            "pStyle" => self.paragraph.style = element.attribute("val"),
            "numId" => self.paragraph.list = element.attribute("val"),
            "ilvl" => self.paragraph.level = element.attribute("val"),
            "r" => {
                self.in_run = true;
                self.look = Look { link: self.look.link.take(), ..Look::default() };
            }
            "b" if self.in_run => self.look.bold = element.is_on(),
            "i" if self.in_run => self.look.italic = element.is_on(),
            "t" => self.in_text = true,
            "tab" if self.in_run => self.paragraph.inline.push(&self.look, " "),
            "br" | "cr" if self.in_run => self.paragraph.inline.push(&self.look, "\n"),
            "noBreakHyphen" => self.paragraph.inline.push(&self.look, "-"),
            "hyperlink" => {
                let target = element.attribute("id").and_then(|id| self.styles.link(&id));
                self.look.link = target.map(str::to_owned);
            }
            "tbl" if self.tables.len() < MAX_TABLES => self.tables.push(Table::default()),
            "tr" => self.with_table(|table| table.rows.push(Vec::new())),
            "tc" => self.with_table(|table| {
                if let Some(row) = table.rows.last_mut() {
                    row.push(String::new());
                }
            }),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        match name {
            "p" => self.end_paragraph(),
            "r" => self.in_run = false,
            "t" => self.in_text = false,
            "hyperlink" => self.look.link = None,
            "tbl" => self.end_table(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        // Beyond the limit nothing is kept; the end says so.
        if self.in_text && self.skipped == 0 && self.markdown.len() <= MAX_OUTPUT {
            self.paragraph.inline.push(&self.look, text);
        }
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        let text = paragraph.inline.markdown();
        if text.is_empty() {
            return;
        }
        if !self.tables.is_empty() {
            self.with_table(|table| table.add_to_cell(&text));
            return;
        }
        let style = paragraph.style.as_deref().unwrap_or_default();
        if let Some(level) = self.styles.heading(style) {
            let plain = paragraph.inline.plain();
            if level == 1 && self.title.is_none() {
                self.title = tidy_title(&plain);
            }
            self.block(&format!("{} {}", "#".repeat(level), text.replace("\\\n", " ")));
            return;
        }
        let list = paragraph.list.as_deref().or_else(|| self.styles.list(style));
        match list.filter(|list| *list != "0") {
            Some(list) => {
                let named = self.styles.list_level(style).unwrap_or(0);
                let level = paragraph.level.as_deref().unwrap_or("0");
                let numbered = self.styles.is_numbered(list, level);
                self.item(&text, level.parse().unwrap_or(0).max(named), numbered);
            }
            None => self.block(&text),
        }
    }

    /// A block of its own, with an empty line before it.
    fn block(&mut self, text: &str) {
        if !self.markdown.is_empty() {
            self.markdown.push('\n');
        }
        self.markdown.push_str(text);
        self.markdown.push('\n');
        self.list_item = None;
    }

    fn item(&mut self, text: &str, level: usize, numbered: bool) {
        // An item can only be one level below the one before it.
        let deepest = self.list_item.map_or(0, |(level, _)| level + 1);
        let level = level.min(deepest);
        let new_list = self.list_item.is_none_or(|last| last == (0, !numbered) && level == 0);
        if new_list && !self.markdown.is_empty() {
            self.markdown.push('\n');
        }
        let indent = "    ".repeat(level);
        let mark = if numbered { "1." } else { "-" };
        let text = text.replace('\n', &format!("\n{indent}   "));
        self.markdown.push_str(&format!("{indent}{mark} {text}\n"));
        self.list_item = Some((level, numbered));
    }

    fn with_table(&mut self, change: impl FnOnce(&mut Table)) {
        if let Some(table) = self.tables.last_mut() {
            change(table);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.tables.pop() else { return };
        if self.tables.is_empty() {
            let markdown = table.markdown();
            if !markdown.is_empty() {
                self.block(&markdown);
            }
            return;
        }
        // Markdown has no tables in tables: the inner one becomes lines of the cell.
        let lines: Vec<String> = table.rows.iter().map(|row| row.join(" ")).collect();
        self.with_table(|outer| outer.add_to_cell(&lines.join("<br>")));
    }
}

impl Table {
    fn add_to_cell(&mut self, text: &str) {
        let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) else { return };
        if !cell.is_empty() {
            cell.push_str("<br>");
        }
        cell.push_str(&text.replace("\\\n", "<br>").replace('|', "\\|"));
    }

    /// The first row is the head, because Markdown has no tables without one.
    fn markdown(&self) -> String {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if n_columns == 0 {
            return String::new();
        }
        let line = |cells: &[String]| {
            let empty = vec![String::new(); n_columns - cells.len()];
            format!("| {} |", [cells, &empty].concat().join(" | "))
        };
        let mut lines: Vec<String> = self.rows.iter().map(|row| line(row)).collect();
        lines.insert(1.min(lines.len()), format!("|{}", " --- |".repeat(n_columns)));
        lines.join("\n")
    }
}
