//! The command line as plain data. What a command does is in `commands`, what settings mean in
//! `config`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Config, ConfigError, DialectName, Environment, Given, Settings};
use crate::keys::Lifetime;

/// One door to a team's knowledge and tools that every MCP client, old or new, can walk through.
///
/// Without a command, lyceum serves. Every setting can also stand in a TOML file (--config) or in
/// an environment variable with the prefix LYCEUM_; docs/configuration.md lists them.
#[derive(Debug, Parser)]
#[command(name = "lyceum", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) serve: ServeOpts,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve MCP over HTTP (the default).
    Serve(Box<ServeOpts>),
    /// Serve MCP over standard input and output, for clients that start their servers.
    Stdio(StdioOpts),
    /// Say how a request would be answered, and why: JSON, an event stream, or not at all.
    Explain(ExplainOpts),
    /// Probe any MCP server over HTTP: what it serves, how it behaves, what to fix.
    Doctor(DoctorOpts),
    /// Make, list and revoke API keys. A running server notices within a second.
    Keys(KeysOpts),
    /// Put files into the knowledge base: Markdown, HTML, PDF, DOCX, text, JSON, or an exported .jsonl.
    Import(ImportOpts),
    /// Turn a Knox topology, or the `mcpServers` JSON of a client, into entries for the
    /// configuration file.
    ImportConfig(ImportConfigOpts),
    /// Write the knowledge base to a directory of files, or to one .jsonl file.
    Export(ExportOpts),
    /// Search the knowledge base, as agents do.
    Search(SearchOpts),
    /// Print a document.
    Get(GetOpts),
    /// List the paths of documents.
    Ls(LsOpts),
    /// Write a document, from a file or from standard input.
    Put(PutOpts),
    /// Delete documents. Their history is kept, unless they are purged.
    Rm(RmOpts),
    /// Read and check everything that is stored. Fails when something is damaged.
    Check(CheckOpts),
    /// Copy the knowledge base to a file, while it is in use.
    Backup(BackupOpts),
    /// Put a backup in the place of the knowledge base. The server must not run.
    Restore(RestoreOpts),
    /// Embed the documents that lack vectors, those that were given up included.
    Reindex(ReindexOpts),
    /// Look at the servers behind the gateway, approve what they offer, log in to them.
    Upstreams(UpstreamsOpts),
    /// Work with the configuration.
    Config(ConfigOpts),
    /// Convert a file from standard input; what the server starts for files of strangers.
    #[command(hide = true)]
    Convert(ConvertOpts),
}

/// Where settings come from.
#[derive(Debug, Default, Args)]
pub(crate) struct ServeOpts {
    /// Read settings from this TOML file. Environment variables and flags cover what it says.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// Settings that matter without a network.
#[derive(Debug, Args)]
pub(crate) struct StdioOpts {
    /// Read settings from this TOML file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Directory with the knowledge; a server may be using it at the same time.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<Given<PathBuf>>,

    /// What to log on stderr.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<Given<String>>,
}

/// What is known about the file to convert.
#[derive(Debug, Default, Args)]
pub(crate) struct ConvertOpts {
    /// The media type it came with.
    #[arg(long, value_name = "TYPE")]
    pub(crate) media_type: Option<String>,

    /// What it is called.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Where it was found.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
}

/// A request to explain.
#[derive(Debug, Args)]
pub(crate) struct ExplainOpts {
    /// The Accept header; leave it out for a request without one.
    #[arg(long, value_name = "HEADER")]
    pub(crate) accept: Option<String>,

    /// The dialect of the endpoint: standard, agent-data, knox, turul or strict.
    #[arg(long, value_name = "NAME", default_value = "standard")]
    pub(crate) dialect: DialectName,

    /// The JSON-RPC method that is posted.
    #[arg(long, value_name = "METHOD", default_value = "tools/call")]
    pub(crate) method: String,

    /// Explain a GET instead of a POST.
    #[arg(long, conflicts_with = "method")]
    pub(crate) get: bool,

    /// As if the endpoint had `sse = false`.
    #[arg(long)]
    pub(crate) no_sse: bool,
}

/// A server to examine.
#[derive(Debug, Args)]
pub(crate) struct DoctorOpts {
    /// The server's MCP endpoint, such as http://127.0.0.1:8808/mcp.
    pub(crate) url: String,

    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Send this bearer token with every request; `-` reads it from standard input.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// Seconds each probe may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=300))]
    pub(crate) patience: u64,
}

/// Whose keys, and what to do with them.
#[derive(Debug, Args)]
pub(crate) struct KeysOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

/// Upstreams, and what to do with them.
#[derive(Debug, Args)]
pub(crate) struct UpstreamsOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    #[command(subcommand)]
    pub(crate) command: Option<UpstreamsCommand>,
}

/// What to do with upstreams.
#[derive(Debug, Subcommand)]
pub(crate) enum UpstreamsCommand {
    /// Connect to each and say how it is (the default). Fails when any is down.
    List,
    /// Say where a tool's name leads, on which hops, and at which endpoints it is shown.
    Why {
        /// The name a client calls, in any form.
        tool: String,
    },
    /// Write the definitions of all tools to the lockfile. From then on a tool that changes is held
    /// back until it is approved.
    Lock,
    /// Show what is not as the lockfile has it. Fails when anything is not.
    Diff,
    /// Approve a tool as it is now, or all tools of an upstream.
    Approve {
        /// The upstream's name.
        upstream: String,

        /// The tool, by its own name. Without it: all.
        tool: Option<String>,
    },
    /// Log in to an upstream that asks for it, in a browser.
    Login {
        /// The upstream's name.
        name: String,
    },
    /// Forget the tokens of an upstream.
    Logout {
        /// The upstream's name.
        name: String,
    },
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key and print it. It is shown this once; only a digest of it is kept.
    Create {
        /// What the key is called, in `keys = [...]` and in the audit trail. A second key of the same
        /// name lets clients change over before the first is revoked.
        name: String,

        /// How long it is good for: 90d, 12h, never.
        #[arg(long, value_name = "TIME", default_value = "90d")]
        expires: Lifetime,
    },
    /// List all keys, those that are no longer good included.
    List,
    /// Revoke the keys of a name, or the one with an id.
    Revoke {
        /// The name or the id, as `lyceum keys list` shows them.
        #[arg(value_name = "NAME|ID")]
        key: String,
    },
}

/// Which knowledge base.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Place {
    /// Read settings from this TOML file.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    /// The data directory of the server.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data: Option<Given<PathBuf>>,
}

/// What to import.
#[derive(Debug, Args)]
pub(crate) struct ImportOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// A directory or a file.
    pub(crate) source: PathBuf,

    /// Put the documents under this path.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub(crate) under: String,

    /// Give every document this tag as well; may be repeated.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,

    /// Only say what would be imported.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Whose configuration to take over.
#[derive(Debug, Args)]
pub(crate) struct ImportConfigOpts {
    /// A Knox topology (XML), or a client's JSON: Claude Desktop, Claude Code, Cursor, VS Code and
    /// others; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub(crate) source: PathBuf,

    /// Write the entries to this file instead of standard output. A file that exists is left as it
    /// is.
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

/// What to export, and where to.
#[derive(Debug, Args)]
pub(crate) struct ExportOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// A directory, made if need be, or a file that ends in .jsonl.
    pub(crate) target: PathBuf,

    /// Only documents whose path begins so.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub(crate) prefix: String,
}

/// What to search for.
#[derive(Debug, Args)]
pub(crate) struct SearchOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// The words, or a question.
    #[arg(required = true)]
    pub(crate) query: Vec<String>,

    /// Documents to show.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) limit: u16,

    /// Only documents whose path begins so.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,

    /// Only documents with this tag; may be repeated.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,

    /// Say how each score came about.
    #[arg(long)]
    pub(crate) explain: bool,
}

/// What to print.
#[derive(Debug, Args)]
pub(crate) struct GetOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// The path of the document.
    pub(crate) path: String,

    /// As it was in this revision.
    #[arg(long, value_name = "N", conflicts_with = "history")]
    pub(crate) revision: Option<i64>,

    /// List its revisions instead, newest first.
    #[arg(long)]
    pub(crate) history: bool,

    /// Revisions to list.
    #[arg(long, value_name = "N", default_value_t = 50, requires = "history")]
    pub(crate) limit: u16,
}

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct LsOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// Only documents whose path begins so.
    #[arg(default_value = "")]
    pub(crate) prefix: String,

    /// Also show revision, time of the last change, and how the vectors are.
    #[arg(long, short)]
    pub(crate) long: bool,
}

/// What to write.
#[derive(Debug, Args)]
pub(crate) struct PutOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// The path of the document. One that exists gets another text and keeps the rest.
    pub(crate) path: String,

    /// The file with the text, as it is. Without it, or with `-`: standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// What to delete.
#[derive(Debug, Args)]
pub(crate) struct RmOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// The paths of the documents.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<String>,

    /// Take the texts of all revisions away for good, of deleted and damaged documents, too. Backups
    /// still have them.
    #[arg(long, requires = "yes")]
    pub(crate) purge: bool,

    /// Yes, what is purged cannot be brought back.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What to check.
#[derive(Debug, Args)]
pub(crate) struct CheckOpts {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Where to copy the knowledge base to.
#[derive(Debug, Args)]
pub(crate) struct BackupOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// The file to write; it is complete when it appears.
    pub(crate) target: PathBuf,
}

/// What to restore.
#[derive(Debug, Args)]
pub(crate) struct RestoreOpts {
    #[command(flatten)]
    pub(crate) place: Place,

    /// A file that `lyceum backup` wrote.
    pub(crate) source: PathBuf,

    /// Replace a knowledge base that exists.
    #[arg(long)]
    pub(crate) replace: bool,
}

/// What to embed.
#[derive(Debug, Args)]
pub(crate) struct ReindexOpts {
    /// Make the index of words again from the documents first. The server must not run.
    #[arg(long)]
    pub(crate) words: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// What to do with the configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigOpts {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read and check all settings without serving, and print what would be served.
    Check(Box<ServeOpts>),
    /// Print the reference of all settings, as docs/configuration.md has it.
    Reference,
}

impl Place {
    /// The configuration that holds there.
    pub(crate) fn config(self, environment: &Environment) -> Result<Config, ConfigError> {
        let flags = Settings { data: self.data, ..Settings::default() };
        Config::load(flags, self.config.as_deref(), environment)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn verify_cli() {
        Cli::command().debug_assert();
    }
}
