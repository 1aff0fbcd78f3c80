//! `lyceum upstreams`: connects to the servers behind the gateway as the server would, and tells
//! what it found; approves what they offer; logs in where they ask for it.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use lyceum_gateway::lock::{Definition, Kind, Lock, State};
use lyceum_gateway::oauth::Loopback;
use lyceum_gateway::{Form, Gateway, Health, Share, Status, UpstreamConfig, Why};
use lyceum_http::{ByteBudgets, Sealer};
use tokio::time::Duration;

use crate::behind;
use crate::cli::{UpstreamsCommand, UpstreamsOpts};
use crate::config::{Config, Environment};
use crate::knowledge;
use crate::library;
use crate::logging;
use crate::stdout::print;
use crate::terminal::{self, one_line};

/// How long all upstreams together may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(opts: UpstreamsOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let config = opts.place.config(environment)?;
    logging::start("error", environment);
    if config.upstreams.is_empty() {
        bail!("no upstreams are configured; add [[upstream]] entries, see docs/gateway.md");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        library::create_private(&config.data).context("making the data directory")?;
        let sealer = behind::sealer(&config)?;
        match opts.command.unwrap_or(UpstreamsCommand::List) {
            UpstreamsCommand::Login { name } => login(&config, &sealer, &name).await,
            UpstreamsCommand::Logout { name } => logout(&config, &sealer, &name).await,
            UpstreamsCommand::List => with(&config, &sealer, async |gateway| list(gateway)).await,
            UpstreamsCommand::Why { tool } => {
                with(&config, &sealer, async |gateway| why(&config, gateway, &tool)).await
            }
            UpstreamsCommand::Lock => {
                with(&config, &sealer, async |gateway| lock(&config, gateway)).await
            }
            UpstreamsCommand::Diff => {
                with(&config, &sealer, async |gateway| diff(&config, gateway)).await
            }
            UpstreamsCommand::Approve { upstream, tool } => {
                let approve =
                    async |gateway: &Gateway| approve(&config, gateway, &upstream, tool.as_deref());
                with(&config, &sealer, approve).await
            }
        }
    })
}

/// Connects to everything, does `work`, and says goodbye.
async fn with(
    config: &Config,
    sealer: &Arc<Sealer>,
    work: impl AsyncFnOnce(&Gateway) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let gateway = behind::gateway(config, sealer, &ByteBudgets::new(&config.limits))?;
    gateway.reserve(knowledge::reserved());
    if !gateway.settled(PATIENCE).await {
        eprintln!("some upstreams are still being connected to; this is what is known so far");
    }
    let done = work(&gateway).await;
    gateway.close().await;
    done
}

/// One line for each upstream, and what is wrong with it below. Fails when any is down.
fn list(gateway: &Gateway) -> anyhow::Result<ExitCode> {
    let mut text =
        format!("{:<20}{:<12}{:<12}{:<17}TOOLS\n", "NAME", "STATUS", "REVISION", "TRANSPORT");
    let health = gateway.health();
    for (name, health) in &health {
        let revision = health.revision.unwrap_or("-");
        let (status, transport) = (health.status.as_str(), health.transport);
        let _ =
            writeln!(text, "{name:<20}{status:<12}{revision:<12}{transport:<17}{}", health.tools);
        for note in notes(health) {
            let _ = writeln!(text, "  {}", one_line(&note));
        }
    }
    print(text.trim_end())?;
    let all_up = health.iter().all(|(_, health)| health.status == Status::Up);
    Ok(if all_up { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn notes(health: &Health) -> Vec<String> {
    let error = health.last_error.iter().map(|error| format!("last error: {error}"));
    let held = health.quarantined.iter().map(|tool| {
        format!(
            "{tool} is held back: it is not as it was approved; lyceum upstreams diff shows why"
        )
    });
    let changed = health.changed.iter().map(|tool| {
        format!("{tool} is not what it was at first use; lyceum upstreams lock holds changes back")
    });
    let flagged = health.flagged.iter().map(|found| format!("characters nobody sees: {found}"));
    let wrong = error.chain(health.collisions.iter().cloned());
    wrong.chain(held).chain(changed).chain(flagged).collect()
}

/// Tells where a tool's name leads, and who may see it.
fn why(config: &Config, gateway: &Gateway, tool: &str) -> anyhow::Result<ExitCode> {
    let Some(why) = gateway.why(tool) else {
        print(match gateway.why_absent(tool) {
            Some((upstream, why)) => {
                format!("{tool}: upstream {upstream} may have it, but {}", one_line(&why))
            }
            None => {
                format!("{tool}: no upstream has such a tool; lyceum upstreams shows which are up")
            }
        })?;
        return Ok(ExitCode::FAILURE);
    };
    let mut text = format!("{tool}: {}\n", form(&why));
    if why.form != Form::Own {
        let upstream = config.upstreams.iter().find(|upstream| upstream.name == why.upstream);
        let health = gateway.health().into_iter().find(|(name, _)| *name == why.upstream);
        if let (Some(upstream), Some((_, health))) = (upstream, health) {
            describe(&mut text, &why, upstream, &health);
        }
    }
    for endpoint in &config.endpoints {
        let is_own = why.form == Form::Own;
        let shown = match (endpoint.offers(&why.public), why.is_shown || is_own) {
            _ if is_own && endpoint.is_knox => "not shown, because only upstreams are shown there",
            (true, true) => "shown",
            (true, false) if why.held_back.is_some() => "not shown, because it is held back",
            (true, false) => "not shown, because the upstream's tools leave it out",
            (false, _) => "not shown, because the endpoint's tools leave it out",
        };
        let _ = writeln!(text, "  at {}: {shown}", endpoint.path);
    }
    print(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

fn form(why: &Why) -> String {
    let whose = format!("{} of upstream {}", one_line(&why.own), why.upstream);
    let public = one_line(&why.public);
    match why.form {
        Form::Own => "this server's own tool".to_owned(),
        Form::Public => format!("the public name of {whose}"),
        Form::Alias => format!("an alias of {public} ({whose})"),
        Form::Dotted => format!("another way to write {public} ({whose})"),
        Form::OwnName => format!("{whose}, which no other has; its public name is {public}"),
    }
}

fn describe(text: &mut String, why: &Why, upstream: &UpstreamConfig, health: &Health) {
    let _ = writeln!(
        text,
        "  upstream: {} over {}, revision {}",
        health.status.as_str(),
        health.transport,
        health.revision.unwrap_or("not known yet"),
    );
    let bridged = match health.era {
        Some("legacy") => {
            "legacy clients directly; modern clients over the bridge (questions become input_required, the call is held)"
        }
        Some(_) => {
            "modern clients directly; legacy clients over the bridge (input_required becomes requests to the client)"
        }
        None => "not known yet",
    };
    let _ = writeln!(text, "  reached by: {bridged}");
    let session = match upstream.share {
        Share::Shared if health.era == Some("legacy") && health.transport != "streamable-http" => {
            "one connection for everybody, and another one while a call waits for its client"
        }
        Share::Shared => "one connection for everybody",
        Share::PerSession => "one connection for each session",
    };
    let _ =
        writeln!(text, "  connection: {session}, {:?} of silence at most", upstream.call_timeout);
    let repeats = match why.may_repeat {
        true => "yes, it is marked as read-only or idempotent",
        false => "only if it never reached the upstream",
    };
    let _ = writeln!(text, "  a lost call is made again: {repeats}");
    if let Some(reason) = &why.held_back {
        let _ = writeln!(text, "  held back: {}", one_line(reason));
    }
}

/// Writes down every tool as it is now.
fn lock(config: &Config, gateway: &Gateway) -> anyhow::Result<ExitCode> {
    let path = config.lockfile();
    let mut lock = Lock::load(&path)?.unwrap_or_default();
    let mut n_locked = 0;
    for (upstream, definitions) in up(gateway) {
        n_locked += definitions.len();
        lock.approve_all(&upstream, definitions);
    }
    lock.save(&path)?;
    eprintln!(
        "{n_locked} definitions were written to {}; changes are held back from now on",
        path.display()
    );
    complain_of_absent(gateway)
}

/// Shows what is not as the lockfile has it. Fails when anything is.
fn diff(config: &Config, gateway: &Gateway) -> anyhow::Result<ExitCode> {
    let lock = existing(config)?;
    let mut text = String::new();
    for (upstream, definitions) in up(gateway) {
        for verdict in lock.judge(&upstream, Kind::Tool, &definitions) {
            let name = one_line(&verdict.name);
            let _ = match verdict.state {
                State::Known => Ok(()),
                State::New => writeln!(text, "{upstream} {name}: new"),
                State::Missing => writeln!(text, "{upstream} {name}: gone"),
                State::Renamed { from } => {
                    writeln!(text, "{upstream} {name}: was called {}", one_line(&from))
                }
                State::Changed { diff } => {
                    writeln!(text, "{upstream} {name}: changed\n{}", terminal::lines(&diff))
                }
            };
        }
    }
    if text.is_empty() {
        let is_whole = gateway.health().iter().all(|(_, health)| health.status == Status::Up);
        let what = if is_whole { "everything" } else { "everything of what is up" };
        print(format!("{what} is as it was approved"))?;
        return complain_of_absent(gateway);
    }
    print(text.trim_end())?;
    Ok(ExitCode::FAILURE)
}

/// Approves one tool, or all of an upstream, as it is now.
fn approve(
    config: &Config,
    gateway: &Gateway,
    upstream: &str,
    tool: Option<&str>,
) -> anyhow::Result<ExitCode> {
    named(config, upstream)?;
    let mut lock = existing(config)?;
    let offered = up(gateway).into_iter().find(|(name, _)| name == upstream);
    let (_, definitions) = offered.with_context(|| format!("upstream {upstream} is not up"))?;
    match tool {
        None => lock.approve_all(upstream, definitions),
        Some(tool) => {
            let offered = definitions.into_iter().find(|definition| definition.name() == tool);
            match offered {
                Some(definition) => lock.approve(upstream, definition),
                // Approving that something is gone.
                None => ensure!(
                    lock.forget(upstream, Kind::Tool, tool),
                    "upstream {upstream} has no tool {tool}, and had none"
                ),
            }
        }
    }
    lock.save(&config.lockfile())?;
    eprintln!("approved; a running server notices within a second");
    Ok(ExitCode::SUCCESS)
}

/// The definitions of the upstreams that are up.
fn up(gateway: &Gateway) -> Vec<(String, Vec<Definition>)> {
    let health = gateway.health();
    let is_up = |name: &String| {
        health.iter().any(|(known, health)| known == name && health.status == Status::Up)
    };
    gateway.definitions().into_iter().filter(|(name, _)| is_up(name)).collect()
}

fn complain_of_absent(gateway: &Gateway) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for (name, health) in gateway.health() {
        if health.status != Status::Up {
            let why = health.last_error.unwrap_or_else(|| health.status.as_str().to_owned());
            eprintln!("left out {name}: {}", one_line(&why));
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn existing(config: &Config) -> anyhow::Result<Lock> {
    let path = config.lockfile();
    let lock = Lock::load(&path)?;
    lock.with_context(|| {
        format!("there is no {}; write it with lyceum upstreams lock", path.display())
    })
}

async fn login(config: &Config, sealer: &Arc<Sealer>, name: &str) -> anyhow::Result<ExitCode> {
    let upstream = named(config, name)?;
    let setting = behind::setting(config, sealer, &ByteBudgets::new(&config.limits));
    let show = |page: &str| {
        eprintln!("To log in, open this page in a browser:\n\n  {}\n", one_line(page));
    };
    let oauth = upstream.authorization(&setting, Loopback::new(show))?;
    let oauth = oauth.with_context(|| upstream.how_to_enter())?;
    oauth.log_in(setting.stack.clone()).await?;
    eprintln!(
        "logged in; the tokens are kept, sealed, in the data directory, where a running server finds \
         them within seconds"
    );
    Ok(ExitCode::SUCCESS)
}

async fn logout(config: &Config, sealer: &Arc<Sealer>, name: &str) -> anyhow::Result<ExitCode> {
    named(config, name)?;
    behind::setting(config, sealer, &ByteBudgets::new(&config.limits)).tokens.forget(name)?;
    eprintln!("the tokens of {name} are forgotten");
    Ok(ExitCode::SUCCESS)
}

fn named<'a>(config: &'a Config, name: &str) -> anyhow::Result<&'a UpstreamConfig> {
    let found = config.upstreams.iter().find(|upstream| upstream.name == name);
    found.with_context(|| format!("there is no upstream {name}; lyceum upstreams shows all"))
}
