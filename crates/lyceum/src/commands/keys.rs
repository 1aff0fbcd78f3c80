//! `lyceum keys`: makes, lists and revokes API keys.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use lyceum_kb::Millis;
use lyceum_kb::store::{ApiKey, Store};

use crate::cli::{KeysCommand, KeysOpts};
use crate::config::Environment;
use crate::keys::{Key, Lifetime, check_name, now};
use crate::library;
use crate::stdout::print;
use crate::terminal::one_line;

pub(crate) fn run(opts: KeysOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let store = &*library::store(&opts.place.config(environment)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match opts.command {
            KeysCommand::Create { name, expires } => create(store, &name, expires).await,
            KeysCommand::List => print(table(&store.keys().await?).trim_end()).map_err(Into::into),
            KeysCommand::Revoke { key } => revoke(store, &key).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The key goes to stdout and nothing else does, so that it can be piped to where it is needed.
async fn create(store: &dyn Store, name: &str, lifetime: Lifetime) -> anyhow::Result<()> {
    check_name(name).map_err(anyhow::Error::msg)?;
    let (key, now) = (Key::generate(), now());
    let record = key.record(name, now, lifetime.end(now));
    let expiry = expiry(&record);
    store.add_key(record).await.context("keeping the key")?;
    print(key.reveal())?;
    eprintln!("key {name} expires {expiry}; it is shown this once, so keep it now");
    Ok(())
}

async fn revoke(store: &dyn Store, name_or_id: &str) -> anyhow::Result<()> {
    let n_revoked = store.revoke_key(name_or_id, now()).await?;
    ensure!(n_revoked > 0, "no live key is called {name_or_id}; lyceum keys list shows all");
    eprintln!("revoked {n_revoked} {}", if n_revoked == 1 { "key" } else { "keys" });
    Ok(())
}

fn table(keys: &[ApiKey]) -> String {
    let mut text = format!("{:<12}{:<24}{:<12}{:<12}STATE\n", "ID", "NAME", "CREATED", "EXPIRES");
    for key in keys {
        let state = match key {
            ApiKey { revoked_at: Some(_), .. } => "revoked",
            ApiKey { expires_at: Some(end), .. } if *end <= now() => "expired",
            _ => "live",
        };
        let (id, name, created) = (&key.id, one_line(&key.name), when(key.created_at));
        let _ = writeln!(text, "{id:<12}{name:<24}{created:<12}{:<12}{state}", expiry(key));
    }
    text
}

fn expiry(key: &ApiKey) -> String {
    key.expires_at.map_or("never".to_owned(), when)
}

/// How far a time is from now, in its largest unit.
fn when(at: Millis) -> String {
    let distance = (at - now()).abs() / 1000;
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    // Rounded, so that a key made for 90 days a moment ago does not say 89.
    let (seconds, unit) =
        units.into_iter().find(|(seconds, _)| distance >= *seconds - 1).unwrap_or((1, "s"));
    let span = format!("{}{unit}", (distance + seconds / 2) / seconds);
    if at > now() { format!("in {span}") } else { format!("{span} ago") }
}
