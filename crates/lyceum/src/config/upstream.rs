//! The servers behind the gateway, checked against each other.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lyceum_gateway::names::is_upstream;
use lyceum_gateway::oauth::{OAuthConfig, OAuthError};
use lyceum_gateway::{HeaderSource, Target, UpstreamConfig, credentials};

use crate::config::error::ConfigError;
use crate::config::given::Given;
use crate::config::settings::{OAuthTable, Positive, UpstreamSettings};
use crate::config::values::ToolRule;

/// Fills in what was left out and refuses what cannot be.
pub(crate) fn check(settings: Vec<UpstreamSettings>) -> Result<Vec<UpstreamConfig>, ConfigError> {
    let mut names = HashSet::new();
    let mut prefixes: HashMap<String, String> = HashMap::new();
    let mut upstreams = Vec::with_capacity(settings.len());
    for settings in settings {
        let name = settings.name.clone();
        if !is_upstream(&name.value) {
            let problem = format!(
                "{:?} is no name for an upstream; write up to 32 lower-case letters, digits and \
                 dashes",
                name.value
            );
            return Err(ConfigError::at(&name.source, problem));
        }
        if !names.insert(name.value.clone()) {
            let problem = format!("there is another upstream {:?}; rename one", name.value);
            return Err(ConfigError::at(&name.source, problem));
        }
        let prefix = settings.prefix.as_ref().unwrap_or(&name);
        if !prefix.value.is_empty()
            && let Some(other) = prefixes.insert(prefix.value.clone(), name.value.clone())
        {
            let problem = format!(
                "the names of upstream {:?} would begin with {:?}, as those of {other:?} do; give one \
                 of them another prefix",
                name.value, prefix.value
            );
            return Err(ConfigError::at(&prefix.source, problem));
        }
        upstreams.push(configured(settings)?);
    }
    Ok(upstreams)
}

fn configured(settings: UpstreamSettings) -> Result<UpstreamConfig, ConfigError> {
    let target = target(&settings)?;
    let base = UpstreamConfig::new(settings.name.value, target);
    let headers = settings.headers.map(headers).transpose()?;
    let tools =
        settings.tools.map(|given| given.value.into_iter().map(|ToolRule(rule)| rule).collect());
    Ok(UpstreamConfig {
        era: settings.era.map_or(base.era, |given| given.value.0),
        share: settings.share.map_or(base.share, |given| given.value.0),
        headers: headers.unwrap_or_default(),
        oauth: settings.oauth.map(oauth).transpose()?,
        env: settings.env.map(|given| given.value).unwrap_or_default(),
        directory: settings.directory.map(|given| given.value),
        call_timeout: seconds(settings.call_timeout).unwrap_or(base.call_timeout),
        idle_timeout: seconds(settings.idle_timeout),
        max_lifetime: seconds(settings.max_lifetime),
        max_connections: settings
            .max_connections
            .map_or(base.max_connections, |given| given.value.get() as usize),
        tools: tools.unwrap_or_default(),
        prefix: settings.prefix.map(|given| given.value),
        aliases: settings
            .aliases
            .map(|given| given.value.into_iter().collect())
            .unwrap_or_default(),
        strip_invisible: settings.strip_invisible.is_some_and(|given| given.value),
        name: base.name,
        target: base.target,
    })
}

fn target(settings: &UpstreamSettings) -> Result<Target, ConfigError> {
    let name = &settings.name;
    match (&settings.command, &settings.url) {
        (Some(command), None) if command.value.is_empty() => {
            let problem = "command is empty; write a program and its arguments";
            Err(ConfigError::at(&command.source, problem))
        }
        (Some(command), None) => Ok(Target::Command(command.value.clone())),
        (None, Some(url)) => Target::parse(&url.value)
            .map_err(|problem| ConfigError::at(&url.source, problem.to_string())),
        (Some(_), Some(url)) => {
            let problem = format!("{} has a command and a url; remove one", name.value);
            Err(ConfigError::at(&url.source, problem))
        }
        (None, None) => {
            let problem = format!("{} needs a command or a url", name.value);
            Err(ConfigError::at(&name.source, problem))
        }
    }
}

fn headers(
    given: Given<std::collections::BTreeMap<String, String>>,
) -> Result<Vec<(String, HeaderSource)>, ConfigError> {
    let check = |(name, value): (String, String)| {
        let checked = credentials::header_name(&name);
        checked.map_err(|problem| ConfigError::at(&given.source, problem.to_string()))?;
        Ok((name, HeaderSource::parse(&value)))
    };
    given.value.into_iter().map(check).collect()
}

fn oauth(given: Given<OAuthTable>) -> Result<OAuthConfig, ConfigError> {
    let source = |text: String| HeaderSource::parse(&text);
    let table = given.value;
    let config = OAuthConfig {
        grant: table.grant.map(|grant| grant.0).unwrap_or_default(),
        client_id: table.client_id,
        client_secret: table.client_secret.map(source),
        client_key: table.client_key.map(source),
        issuer: table.issuer,
        client_document: table.client_document,
        scopes: table.scopes,
        trusted_hosts: table.trusted_hosts,
    };
    let problem = |error: OAuthError| ConfigError::at(&given.source, error.to_string());
    config.check().map_err(problem)?;
    Ok(config)
}

fn seconds(given: Option<Given<Positive>>) -> Option<Duration> {
    given.map(|given| Duration::from_secs(u64::from(given.value.get())))
}
