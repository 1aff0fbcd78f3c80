//! `lyceum config`: what the settings come to, and what settings there are.

use std::process::ExitCode;

use lyceum_gateway::{Share, Target, UpstreamConfig};

use crate::cli::{ConfigCommand, ConfigOpts, ServeOpts};
use crate::config::{Config, ConfigError, Environment, reference};
use crate::stdout::print;

pub(crate) fn run(opts: ConfigOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    match opts.command {
        ConfigCommand::Check(opts) => print(check(*opts, environment)?)?,
        ConfigCommand::Reference => print(reference().trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(opts: ServeOpts, environment: &Environment) -> Result<String, ConfigError> {
    let config = Config::load(opts.settings, opts.config.as_deref(), environment)?;
    let mut lines = vec![
        // Whether there is a key is the store's to know, and the store is not opened here.
        format!("listen    {}", config.listen(true)?),
        format!("data      {}", config.data.display()),
    ];
    let endpoints = config.endpoints.iter().map(|endpoint| endpoint.summary());
    lines.extend(endpoints.map(|summary| format!("endpoint  {summary}")));
    lines.extend(config.upstreams.iter().map(|upstream| format!("upstream  {}", brief(upstream))));
    if config.needs_keys() {
        lines.push(
            "note      starts only with an API key; make one with lyceum keys create NAME"
                .to_owned(),
        );
    }
    let strangers = environment.strangers();
    let note = |name: &&str| format!("note      {name} is set but is not a setting");
    lines.extend(strangers.iter().map(note));
    lines.push("ok".to_owned());
    Ok(lines.join("\n"))
}

/// An upstream without where it is, which may hold what is nobody's business.
fn brief(upstream: &UpstreamConfig) -> String {
    let what = match (&upstream.target, upstream.share) {
        (Target::Command(_), Share::Shared) => "a process",
        (Target::Command(_), Share::PerSession) => "a process for each session",
        (Target::Http(_), _) => "over HTTP",
        (Target::HttpSse(_) | Target::CustomSse(_), _) => "over HTTP+SSE",
    };
    format!("{} ({what})", upstream.name)
}
