//! What the names in a Word document mean: which styles are headings, which lists count, where links
//! lead. Damaged or missing parts leave gaps, never errors.

use std::collections::{BTreeMap, BTreeSet};

use super::xml::{Node, walk};

/// How many styles may be based on one another.
const MAX_CHAIN: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Styles {
    styles: BTreeMap<String, Style>,
    /// Which abstract list a list in use refers to.
    lists: BTreeMap<String, String>,
    /// Levels of abstract lists that are numbered.
    numbered: BTreeSet<(String, String)>,
    links: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Style {
    level: Option<usize>,
    based_on: Option<String>,
    list: Option<String>,
    list_level: Option<usize>,
}

impl Styles {
    pub(super) fn read(styles: &str, numbering: &str, relationships: &str) -> Styles {
        let mut read = Styles::default();
        read.read_styles(styles);
        read.read_numbering(numbering);
        read.read_links(relationships);
        read
    }

    /// The level of the heading a style makes, 1 to 6.
    pub(super) fn heading(&self, style: &str) -> Option<usize> {
        let by_name = heading_name(style);
        by_name.or_else(|| self.inherited(style, |style| style.level))
    }

    /// The list a style puts its paragraphs in.
    pub(super) fn list(&self, style: &str) -> Option<&str> {
        self.inherited(style, |style| style.list.as_deref())
    }

    /// How deep in a list a style says its paragraphs are, from 0.
    pub(super) fn list_level(&self, style: &str) -> Option<usize> {
        self.inherited(style, |style| style.list_level)
    }

    pub(super) fn is_numbered(&self, list: &str, level: &str) -> bool {
        let Some(abstract_list) = self.lists.get(list) else { return false };
        self.numbered.contains(&(abstract_list.clone(), level.to_owned()))
    }

    pub(super) fn link(&self, id: &str) -> Option<&str> {
        self.links.get(id).map(String::as_str)
    }

    fn inherited<'a, T>(&'a self, style: &str, get: impl Fn(&'a Style) -> Option<T>) -> Option<T> {
        let mut style = self.styles.get(style)?;
        for _ in 0..MAX_CHAIN {
            if let Some(found) = get(style) {
                return Some(found);
            }
            style = self.styles.get(style.based_on.as_ref()?)?;
        }
        None
    }

    fn read_styles(&mut self, xml: &str) {
        let mut id = String::new();
        // What came before the damage is still right.
        let _ = walk(xml, |node| {
            let Node::Open(element) = node else { return };
            let value = element.attribute("val");
            if element.name() == "style" {
                id = element.attribute("styleId").unwrap_or_default();
                self.styles.insert(id.clone(), Style::default());
                return;
            }
            let Some(style) = self.styles.get_mut(&id) else { return };
            match element.name() {
                "name" => {
                    style.level = value.as_deref().and_then(heading_name).or(style.level);
                    style.list_level = value.as_deref().and_then(list_name);
                }
                "basedOn" => style.based_on = value,
                "numId" => style.list = value,
                "outlineLvl" => {
                    let level = value.and_then(|level| level.parse::<usize>().ok());
                    style.level = level.filter(|level| *level < 6).map(|level| level + 1);
                }
                _ => {}
            }
        });
    }

    fn read_numbering(&mut self, xml: &str) {
        let (mut abstract_list, mut level, mut list) = Default::default();
        let _ = walk(xml, |node| {
            let Node::Open(element) = node else { return };
            match element.name() {
                "abstractNum" => abstract_list = element.attribute("abstractNumId"),
                "lvl" => level = element.attribute("ilvl"),
                "num" => list = element.attribute("numId"),
                "abstractNumId" => {
                    if let (Some(list), Some(meant)) = (list.take(), element.attribute("val")) {
                        self.lists.insert(list, meant);
                    }
                }
                "numFmt" => {
                    let format = element.attribute("val");
                    if let (Some(list), Some(level)) = (&abstract_list, &level)
                        && !matches!(format.as_deref(), None | Some("bullet" | "none"))
                    {
                        self.numbered.insert((list.clone(), level.clone()));
                    }
                }
                _ => {}
            }
        });
    }

    fn read_links(&mut self, xml: &str) {
        let _ = walk(xml, |node| {
            let Node::Open(element) = node else { return };
            let external = element.attribute("TargetMode").is_some_and(|mode| mode == "External");
            if let (true, Some(id), Some(target)) =
                (external, element.attribute("Id"), element.attribute("Target"))
            {
                self.links.insert(id, target);
            }
        });
    }
}

/// The level in names such as `heading 2` and `Heading2`; a title counts as the first.
fn heading_name(name: &str) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    if name == "title" {
        return Some(1);
    }
    let level = name.strip_prefix("heading")?.trim().parse().ok()?;
    (1..=6).contains(&level).then_some(level)
}

/// The level in names such as `List Bullet 2`, from 0.
fn list_name(name: &str) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    let level = name.strip_prefix("list bullet").or_else(|| name.strip_prefix("list number"))?;
    let level: usize = level.trim().parse().ok()?;
    level.checked_sub(1)
}
