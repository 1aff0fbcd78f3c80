//! The reference of all settings, written from the doc comments of `settings`, the flags of the
//! command line and `defaults.toml`, so that it cannot say anything else than they do.

use std::fmt::Write;

use clap::Args;
use toml::Value;

use crate::cli::ServeOpts;
use crate::config::keys::{Key, Kind, keys};

const HEAD: &str = "\
# Configuration

Written by `lyceum config reference`; a test keeps it current.

Settings come from four places, each covering the one before: built-in defaults, the file named by
`--config FILE` (or `LYCEUM_CONFIG`), environment variables, flags. Keys nobody knows are refused.
Bad settings stop lyceum before a port is bound, with exit code 78. `lyceum config check` reads and
checks everything without serving.

In the environment, lists have commas between their items, and `LYCEUM_ENDPOINT` is a TOML array:
`LYCEUM_ENDPOINT='[{ path = \"/mcp\", dialect = \"strict\" }]'`.

```toml
listen = \"127.0.0.1:8808\"
hosts = [\"mcp.example.org\"]

[[endpoint]]
path = \"/mcp\"
keys = [\"admin\"]

[[endpoint]]
path = \"/gpt-mcp/{token}/mcp\"
token_file = \"/etc/lyceum/gpt.token\"

[[endpoint]]
path = \"/search\"
dialect = \"agent-data\"
tools = [\"search_*\", \"get_document\"]

[embeddings]
kind = \"openai\"
url = \"https://api.openai.com/v1\"
model = \"text-embedding-3-small\"
key_env = \"OPENAI_API_KEY\"
```
";

/// The reference, in Markdown.
pub(crate) fn reference() -> String {
    let mut out = HEAD.to_owned();
    let defaults: Value = toml::from_str(super::document::DEFAULTS).expect("defaults are TOML");
    let flags = ServeOpts::augment_args(clap::Command::new("serve"));
    let (nested, plain): (Vec<Key>, Vec<Key>) =
        keys().into_iter().partition(|key| key.path.contains('.'));
    let (tables, plain): (Vec<Key>, Vec<Key>) =
        plain.into_iter().partition(|key| key.kind == Kind::Tables);
    section(&mut out, "Settings", &plain, &defaults, &flags);
    for key in &tables {
        let _ = write!(out, "\n## `[[{}]]`\n\n{}", key.path, key.description);
        let _ = writeln!(out, " (`{}`)", key.variable());
        for member in &key.members {
            let _ = write!(
                out,
                "\n- `{}` ({}): {}\n",
                member.path,
                kind(member.kind),
                member.description
            );
        }
    }
    for group in nested.chunk_by(|one, other| table(&one.path) == table(&other.path)) {
        section(&mut out, &format!("`[{}]`", table(&group[0].path)), group, &defaults, &flags);
    }
    out
}

/// The table a dotted key stands in.
fn table(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn section(out: &mut String, title: &str, keys: &[Key], defaults: &Value, flags: &clap::Command) {
    let _ = writeln!(out, "\n## {title}");
    for key in keys {
        let name = key.path.rsplit('.').next().unwrap_or(&key.path);
        let _ = write!(out, "\n### `{name}`\n\n{}\n\n", key.description);
        let _ = write!(out, "{}; `{}`", kind(key.kind), key.variable());
        if let Some(flag) = flags.get_arguments().find(|flag| *flag.get_id() == *key.path) {
            let _ = write!(out, "; `{}`", flag_text(flag));
        }
        match lookup(defaults, &key.path) {
            Some(default) => {
                let _ = writeln!(out, "; default `{default}`");
            }
            None => out.push('\n'),
        }
    }
}

fn flag_text(flag: &clap::Arg) -> String {
    let long = flag.get_long().unwrap_or_default();
    match flag.get_value_names() {
        Some([value, ..]) if flag.get_num_args().is_none_or(|n| n.takes_values()) => {
            format!("--{long} {value}")
        }
        _ => format!("--{long}"),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Literal(what) => what,
        Kind::List => "list of texts",
        Kind::Tables => "tables",
    }
}

fn lookup<'a>(defaults: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(defaults, |value, name| value.get(name))
}
