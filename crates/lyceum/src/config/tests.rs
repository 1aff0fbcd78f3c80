//! What settings come to, and the exact words of every refusal.

use crate::config::environment::CONFIG;
use std::path::PathBuf;

use clap::Parser;
use lyceum_http::dialect::Dialect;

use tokio::time::Duration;

use super::*;
use crate::cli::Cli;

const HOME: (&str, &str) = ("HOME", "/nobody");

/// Loads `file` and `variables` under `flags`.
fn load(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Result<Config, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lyceum.toml");
    std::fs::write(&path, file).unwrap();
    let cli = Cli::parse_from([&["lyceum"], flags].concat());
    let environment = Environment::made_of(&[&[HOME], variables].concat());
    Config::load(cli.serve.settings, Some(&path), &environment).and_then(|config| {
        config.listen(false)?;
        Ok(config)
    })
}

/// What `load` refuses with, the directory of the file left out.
fn refused(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> String {
    let error = load(file, variables, flags).expect_err("a refusal").to_string();
    match error.split_once("lyceum.toml:") {
        Some((_, rest)) => format!("lyceum.toml:{rest}"),
        None => error,
    }
}

#[test]
fn bad_files_are_refused_with_line_and_fix() {
    let rows: &[(&str, &str)] = &[
        (
            "lisen = \"127.0.0.1:1\"",
            "lyceum.toml:1: unknown key `lisen`, expected one of `listen`, `data`, `preset`, `sse`, \
             `log`, `i_know_unauthenticated`, `hosts`, `origins`, `store`, `embeddings`, `index`, \
             `documents`, `rest`, `endpoint`, `upstream`, `lockfile`, `stdio`, `knox`, `limits`, `maintenance`",
        ),
        (
            "\nlisten = \"8808\"",
            "lyceum.toml:2: \"8808\" is not an address; write IP:PORT, such as 127.0.0.1:8808 or \
             [::1]:8808",
        ),
        ("\n\nlisten = 8808", "lyceum.toml:3: invalid type: integer `8808`, expected a string"),
        (
            "listen = \"0.0.0.0:80\"",
            "lyceum.toml:1: 0.0.0.0:80 can be reached from other machines and there is no API key \
             to ask for; make one with `lyceum keys create NAME`, listen on 127.0.0.1:80, or serve \
             everyone with --i-know-unauthenticated",
        ),
        (
            "preset = \"lax\"",
            "lyceum.toml:1: unknown preset \"lax\"; write one of strict, agent-data, knox",
        ),
        (
            "[[endpoint]]\npath = \"/a\"\ndialect = \"klingon\"",
            "lyceum.toml:3: unknown dialect \"klingon\"; write one of standard, agent-data, knox, \
             turul, strict",
        ),
        ("[[endpoint]]\nsse = true", "lyceum.toml:1: missing key `path`"),
        (
            "[[endpoint]]\npath = \"/a\"\nsee = true",
            "lyceum.toml:3: unknown key `see`, expected one of `path`, `dialect`, `sse`, `explain`, \
             `tools`, `http_sse`, `keys`, `token_env`, `token_file`",
        ),
        (
            "[[endpoint]]\npath = \"mcp\"",
            "lyceum.toml:2: \"mcp\" is no path for an endpoint; write one like \"/mcp\": a leading \
             slash, then letters, digits, - . _ ~ and single slashes, none at the end",
        ),
        (
            "[[endpoint]]\npath = \"/metrics\"",
            "lyceum.toml:2: /metrics belongs to the metrics; choose another path",
        ),
        (
            "[[endpoint]]\npath = \"/a\"\n[[endpoint]]\npath = \"/a\"",
            "lyceum.toml:4: /a belongs to another endpoint; choose another path",
        ),
        (
            "[[endpoint]]\npath = \"/a\"\nhttp_sse = true\n[[endpoint]]\npath = \"/a/sse\"",
            "lyceum.toml:5: /a/sse belongs to the HTTP+SSE clients of another endpoint; choose another \
             path",
        ),
        (
            "[[endpoint]]\npath = \"/a\"\ntools = [\"\"]",
            "lyceum.toml:3: a tool's name cannot be empty; write \"*\" for all tools",
        ),
        (
            "[[upstream]]\nname = \"a\"\nurl = \"http://h\"\nprefix = \"b\"\n\
             [[upstream]]\nname = \"b\"\nurl = \"http://h\"",
            "lyceum.toml:6: the names of upstream \"b\" would begin with \"b\", as those of \"a\" do; \
             give one of them another prefix",
        ),
        (
            "[[upstream]]\nname = \"a\"\nurl = \"http://h\"\n\
             oauth = { grant = \"client-credentials\", client_id = \"c\" }",
            "lyceum.toml:4: OAuth is not set up right: client credentials need a client_id and a \
             secret or key",
        ),
        (
            "[[upstream]]\nname = \"a\"\nurl = \"http://h\"\noauth = { client_secret = \"env:S\" }",
            "lyceum.toml:4: OAuth is not set up right: client_secret, client_key and issuer belong to \
             a client_id, which is missing",
        ),
        (
            "[[upstream]]\nname = \"a\"\nurl = \"http://h\"\ntools = [\"!\"]",
            "lyceum.toml:4: a tool's name cannot be empty; write \"*\" for all tools",
        ),
        (
            "[limits]\nbody_bytes = 0",
            "lyceum.toml:2: invalid value: integer `0`, expected a whole number from 1 to \
             4294967295",
        ),
        (
            "log = \"lyceum=loud\"",
            "lyceum.toml:1: \"lyceum=loud\" is no log filter; write error, warn, info, debug or \
             trace, or a list such as info,lyceum_http=debug",
        ),
        ("hosts = [\"http://a\"]", "lyceum.toml:1: \"http://a\" is not a host, host:port or *"),
        (
            "origins = [\"app.example.org\"]",
            "lyceum.toml:1: \"app.example.org\" is not an origin such as https://app.example.com",
        ),
        ("data = \"\"", "lyceum.toml:1: data is empty; name a directory"),
        (
            "store = \"postgres://u:p@db/x\"",
            "lyceum.toml:1: the only store so far is \"sqlite\", a file in the data directory",
        ),
        (
            "[embeddings]\nkind = \"magic\"",
            "lyceum.toml:2: unknown embeddings \"magic\"; write one of static, openai",
        ),
        (
            "[embeddings]\nkind = \"openai\"\nmodel = \"m\"",
            "lyceum.toml:2: kind = \"openai\" needs url, such as \"https://api.openai.com/v1\", as \
             well",
        ),
        (
            "[embeddings]\nmodel = \"m\"",
            "lyceum.toml:2: the static model needs no url and no model; write kind = \"openai\" to \
             use them",
        ),
        (
            "[embeddings]\nkind = \"openai\"\nmodel = \"m\"\nurl = \"http://u:p@h/v1\"",
            "lyceum.toml:4: url must be http://HOST… or https://HOST… without a user in it; give the \
             key with key_env or key_file",
        ),
        (
            "[embeddings]\nkey_env = \"A\"\nkey_file = \"b\"",
            "lyceum.toml:2: key_env and key_file are both given; keep one",
        ),
        (
            "[[upstream]]\nname = \"My Files\"\ncommand = [\"x\"]",
            "lyceum.toml:2: \"My Files\" is no name for an upstream; write up to 32 lower-case \
             letters, digits and dashes",
        ),
        ("[[upstream]]\nname = \"a\"", "lyceum.toml:2: a needs a command or a url"),
        (
            "[[upstream]]\nname = \"a\"\ncommand = [\"x\"]\nurl = \"http://h/mcp\"",
            "lyceum.toml:4: a has a command and a url; remove one",
        ),
        (
            "[[upstream]]\nname = \"a\"\ncommand = []",
            "lyceum.toml:3: command is empty; write a program and its arguments",
        ),
        (
            "[[upstream]]\nname = \"a\"\ncommand = [\"x\"]\n[[upstream]]\nname = \"a\"\ncommand = [\"y\"]",
            "lyceum.toml:5: there is another upstream \"a\"; rename one",
        ),
        (
            "[[upstream]]\nname = \"a\"\ncommand = [\"x\"]\nera = \"stone\"",
            "lyceum.toml:4: unknown era \"stone\"; write one of auto, legacy, modern",
        ),
        (
            "[[upstream]]\nname = \"a\"\ncommand = [\"x\"]\nshare = \"no\"",
            "lyceum.toml:4: unknown share \"no\"; write shared or per-session",
        ),
        ("sse = yes", "lyceum.toml:1: string values must be quoted, expected literal string"),
    ];
    for (file, expected) in rows {
        assert_eq!(refused(file, &[], &[]), *expected, "{file}");
    }
}

#[test]
fn tokens_have_a_place_and_a_source() {
    let rows: &[(&str, &str)] = &[
        (
            "path = \"/g/{token}/mcp\"",
            "lyceum.toml:2: /g/{token}/mcp needs token_env or token_file as well",
        ),
        (
            "path = \"/g\"\ntoken_file = \"t\"",
            "lyceum.toml:2: /g has no place for a token; write one like \"/gpt-mcp/{token}/mcp\"",
        ),
        (
            "path = \"/g/{token}\"\ntoken_env = \"NOWHERE\"",
            "lyceum.toml:3: the environment variable NOWHERE is empty or not set",
        ),
        (
            "path = \"/g/{token}\"\ntoken_file = \"t\"\nkeys = [\"a\"]",
            "lyceum.toml:2: whoever has the token may enter; remove keys, or the token",
        ),
        (
            "path = \"/g/{token}\"\ntoken_file = \"t\"\nhttp_sse = true",
            "lyceum.toml:2: HTTP+SSE has no place for a token; remove http_sse",
        ),
        (
            "path = \"/documents/mine\"",
            "lyceum.toml:2: /documents/mine belongs to the HTTP API; choose another path",
        ),
    ];
    for (endpoint, expected) in rows {
        assert_eq!(refused(&format!("[[endpoint]]\n{endpoint}"), &[], &[]), *expected);
    }
    for path in ["/{token}/{token}", "/a{token}", "/{Token}"] {
        let file = format!("[[endpoint]]\npath = \"{path}\"\ntoken_file = \"t\"");
        assert!(refused(&file, &[], &[]).contains("is no path for an endpoint"), "{path}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let file = "[[endpoint]]\npath = \"/gpt-mcp/{token}/mcp\"\ntoken_env = \"T\"\n\
                [embeddings]\nkind = \"openai\"\nurl = \"http://h/v1/\"\nmodel = \"m\"\nkey_env = \"K\"";
    let config = load(file, &[("T", "canary-token"), ("K", "canary-key")], &[]).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("canary"), "{shown}");
    let Embeddings::OpenAi(openai) = &config.embeddings else { panic!("{shown}") };
    assert_eq!(&*openai.key.as_ref().unwrap().read().unwrap(), "canary-key");
    assert_eq!(openai.url, "http://h/v1");
}

#[test]
fn endpoints_start_from_the_profile_at_their_path() {
    let file = "[[endpoint]]\npath = \"/mcp-readonly\"\nkeys = [\"a\"]\n\
                [[endpoint]]\npath = \"/gpt-mcp/{token}/mcp\"\ntoken_env = \"T\"\n\
                [[endpoint]]\npath = \"/mine\"";
    let config = load(file, &[("T", "t")], &[]).unwrap();
    let can = |endpoint: usize, tool: &str| config.endpoints[endpoint].offers(tool);
    let seen = [0, 1, 2]
        .map(|at| (can(at, "batch_read"), can(at, "patch_document"), can(at, "delete_document")));
    assert_eq!(seen, [(true, false, false), (true, true, false), (true, true, true)]);
    let dialects = config.endpoints.iter().map(|endpoint| endpoint.dialect);
    let expected = [Dialect::Standard, Dialect::AgentData, Dialect::Standard];
    assert_eq!(dialects.collect::<Vec<_>>(), expected);
}

#[test]
fn skipped_prefixes_follow_the_preset_until_named() {
    let skipped = |file: &str, flags: &[&str]| load(file, &[], flags).unwrap().policy.skip_prefixes;
    assert!(skipped("", &[]).is_empty());
    let agent_data = ["--preset", "agent-data"];
    assert_eq!(skipped("", &agent_data), ["operations/tasks/comments/", "registries/"]);
    assert_eq!(skipped("[index]\nskip_prefixes = [\"x/\"]", &agent_data), ["x/"]);
    assert!(skipped("[index]\nskip_prefixes = []", &agent_data).is_empty());
}

#[test]
fn bad_variables_are_refused_by_name() {
    let rows: &[(&str, &str, &str)] = &[
        (
            "LYCEUM_LISTEN",
            "localhost",
            "LYCEUM_LISTEN: \"localhost\" is not an address; write IP:PORT, such as 127.0.0.1:8808 \
             or [::1]:8808",
        ),
        (
            "LYCEUM_LIMITS_SESSIONS",
            "many",
            "LYCEUM_LIMITS_SESSIONS: string values must be quoted, expected literal string",
        ),
        (
            "LYCEUM_ENDPOINT",
            "[{ path = \"/mcp\", dialect = \"x\" }]",
            "LYCEUM_ENDPOINT: unknown dialect \"x\"; write one of standard, agent-data, knox, turul, \
             strict",
        ),
        (
            "LYCEUM_LISTEN",
            "[::]:8808",
            "LYCEUM_LISTEN: [::]:8808 can be reached from other machines and there is no API key \
             to ask for; make one with `lyceum keys create NAME`, listen on 127.0.0.1:8808, or serve \
             everyone with --i-know-unauthenticated",
        ),
    ];
    for (name, value, expected) in rows {
        assert_eq!(refused("", &[(name, value)], &[]), *expected, "{name}={value}");
    }
}

#[test]
fn missing_file_is_refused() {
    let environment = Environment::made_of(&[HOME, (CONFIG, "/no/such.toml")]);
    let error = Config::load(Settings::default(), None, &environment).expect_err("no file");
    assert!(error.to_string().starts_with("cannot read configuration /no/such.toml: "), "{error}");
}

#[test]
fn nothing_set_serves_mcp_to_every_client_on_loopback() {
    let config = load("", &[], &[]).unwrap();
    assert_eq!(config.listen(false).unwrap().to_string(), "127.0.0.1:8808");
    assert_eq!(config.data, PathBuf::from("/nobody/.local/share/lyceum"));
    let summary: Vec<String> = config.endpoints.iter().map(Endpoint::summary).collect();
    let reading =
        "search_knowledge list_documents get_document get_document_for_rewrite batch_read";
    let expected = [
        "/mcp (standard, also over HTTP+SSE)".to_owned(),
        format!("/mcp-readonly (standard, also over HTTP+SSE, tools {reading})"),
        format!(
            "/mcp-gpt (agent-data, also over HTTP+SSE, tools {reading} upload_document update_document patch_document)"
        ),
        "/mcp-gpt-full (agent-data, also over HTTP+SSE)".to_owned(),
    ];
    assert_eq!(summary, expected);
    assert_eq!(config.policy.max_body, 4 << 20);
    assert_eq!(config.embeddings, Embeddings::Static);
    let limits = Limits::default();
    assert_eq!(config.limits.body_bytes, 16 << 20);
    assert_eq!(config.limits.session_lifetime, limits.session_lifetime);
    assert_eq!(config.limits.replay_bytes, limits.replay_bytes);
    assert_eq!(config.limits.sessions_per_principal, limits.sessions_per_principal);
    assert_eq!(config.limits.calls_per_principal, limits.calls_per_principal);
    assert_eq!(config.connections.idle, ServeOptions::default().idle);
    assert_eq!(config.process_limits, lyceum_gateway::process::Limits::default());
}

#[test]
fn denied_tools_are_offered_nowhere_and_denials_hand_out_nothing() {
    let offers = |path: &str, tools: &str| {
        let file = format!("[[endpoint]]\npath = {path:?}\ntools = {tools}");
        let config = load(&file, &[], &[]).unwrap();
        ["get_document", "delete_document", "web_get"].map(|tool| config.endpoints[0].offers(tool))
    };
    for (path, tools, expected) in [
        ("/a", r#"["*", "!delete_*"]"#, [true, false, true]),
        ("/a", r#"["!delete_*", "!web_*"]"#, [true, false, false]),
        ("/a", r#"["web_*", "!web_get"]"#, [false, false, false]),
        // What is left of the five that read.
        ("/mcp-readonly", r#"["!search_*"]"#, [true, false, false]),
        ("/mcp-readonly", r#"["!get_*"]"#, [false, false, false]),
        ("/mcp-readonly", r#"["*", "!get_*"]"#, [false, true, true]),
        ("/a", "[]", [false, false, false]),
    ] {
        assert_eq!(offers(path, tools), expected, "{tools} at {path}");
    }
    let file = "[[endpoint]]\npath = \"/a\"\ntools = [\"!x\", \"*\"]";
    assert_eq!(load(file, &[], &[]).unwrap().endpoints[0].summary(), "/a (standard, tools * !x)");
}

#[test]
fn later_layers_cover_earlier_ones() {
    let file = "listen = \"127.0.0.1:1\"\ndata = \"/file\"\nsse = true\n[limits]\nsessions = 7";
    let variables = [("LYCEUM_LISTEN", "127.0.0.1:2"), ("LYCEUM_DATA", "/variable")];
    let config = load(file, &variables, &["--listen", "127.0.0.1:3", "--no-sse"]).unwrap();
    assert_eq!(config.listen(false).unwrap().port(), 3);
    assert_eq!(config.data, PathBuf::from("/variable"));
    assert!(!config.endpoints[0].sse);
    assert_eq!(config.limits.sessions, 7);
    assert_eq!(config.limits.streams_per_session, Limits::default().streams_per_session);
}

#[test]
fn every_setting_has_a_variable() {
    let variables = [
        ("LYCEUM_LISTEN", "localhost:0"),
        ("LYCEUM_DATA", "/d"),
        ("LYCEUM_PRESET", "knox"),
        ("LYCEUM_KNOX_PREFIX", "/knox/mcp/v1"),
        ("LYCEUM_SSE", "false"),
        ("LYCEUM_LOG", "debug,hyper=warn"),
        ("LYCEUM_HOSTS", "a.example, b.example:8443"),
        ("LYCEUM_ORIGINS", "https://app.example.org"),
        ("LYCEUM_ENDPOINT", "[{ path = \"/a\", tools = [\"x*\"] }, { path = \"/b\" }]"),
        ("LYCEUM_LIMITS_DRAIN_SECONDS", "3"),
        ("LYCEUM_LIMITS_CONNECTION_IDLE_SECONDS", "4"),
        ("LYCEUM_LIMITS_SESSIONS_PER_PRINCIPAL", "5"),
        ("LYCEUM_LIMITS_CALLS_PER_PRINCIPAL", "6"),
        ("LYCEUM_I_KNOW_UNAUTHENTICATED", "true"),
    ];
    let config = load("", &variables, &[]).unwrap();
    assert_eq!(config.endpoints.len(), 3);
    assert_eq!(config.endpoints[2].path, "/knox/mcp/v1");
    assert_eq!(config.endpoints[0].dialect, Dialect::Knox);
    assert!(config.endpoints[0].offers("xylophone") && !config.endpoints[0].offers("echo"));
    assert!(config.endpoints[1].offers("echo"));
    let ServeOptions { drain, idle, .. } = config.connections;
    assert_eq!((drain, idle), (Duration::from_secs(3), Duration::from_secs(4)));
    let Limits { sessions_per_principal, calls_per_principal, .. } = config.limits;
    assert_eq!((sessions_per_principal, calls_per_principal), (5, 6));
    let known: Vec<String> = keys::keys().iter().map(keys::Key::variable).collect();
    for (name, _) in variables {
        assert!(known.iter().any(|known| known == name), "{name} is not in the reference");
    }
}

#[test]
fn presets_set_the_dialect_of_endpoints_that_name_none() {
    let summary = |file: &str, flags: &[&str]| {
        let config = load(file, &[], flags).unwrap();
        config.endpoints.iter().map(Endpoint::summary).collect::<Vec<_>>().join("; ")
    };
    for preset in ["strict", "agent-data", "knox"] {
        let config = load("", &[], &["--preset", preset]).unwrap();
        assert_eq!(config.endpoints.len(), if preset == "knox" { 5 } else { 4 });
        for endpoint in &config.endpoints {
            assert_eq!(endpoint.dialect.as_str(), preset, "{}", endpoint.path);
        }
    }
    let file = "[[endpoint]]\npath = \"/a\"\n[[endpoint]]\npath = \"/b\"\ndialect = \"turul\"";
    assert_eq!(summary(file, &["--preset", "strict"]), "/a (strict); /b (turul)");
    assert_eq!(summary(file, &["--no-sse"]), "/a (standard, JSON only); /b (turul, JSON only)");
}

#[test]
fn knox_has_an_endpoint_of_its_own_that_can_be_configured() {
    let base = "/gateway/sandbox/mcp/v1";
    let knox = |file: &str| {
        let config = load(file, &[], &["--preset", "knox"]).unwrap();
        let summaries: Vec<_> =
            config.endpoints.iter().filter(|endpoint| endpoint.is_knox).cloned().collect();
        (config.endpoints.len(), summaries[0].summary())
    };
    let note = "upstreams only, with the paths of Knox below";
    assert_eq!(knox(""), (5, format!("{base} (knox, {note})")));
    assert_eq!(knox("[[endpoint]]\npath = \"/a\""), (2, format!("{base} (knox, {note})")));
    let own = format!("[[endpoint]]\npath = \"{base}\"\ntools = [\"web_*\"]\nkeys = [\"k\"]");
    assert_eq!(knox(&own), (1, format!("{base} (knox, {note}, tools web_*, keys k)")));
    for (file, problem) in [
        ("[knox]\nprefix = \"x\"", "2: \"x\" is no path for an endpoint"),
        ("[knox]\nprefix = \"/\"", "2: / belongs to the hub"),
        ("[knox]\nprefix = \"/mcp\"", "2: /mcp belongs to a profile"),
        ("[knox]\nprefix = \"/{token}\"", "2: /{token} has a place for a token"),
        (
            "[knox]\nprefix = \"/k\"\n[[endpoint]]\npath = \"/k/sse\"",
            "4: /k/sse belongs to the paths of Knox",
        ),
        (
            "[knox]\nprefix = \"/k\"\n[[endpoint]]\npath = \"/k\"\nhttp_sse = true",
            "5: it has its own stream",
        ),
    ] {
        let told = refused(file, &[], &["--preset", "knox"]);
        assert!(told.starts_with(&format!("lyceum.toml:{problem}")), "{told}");
    }
}

#[test]
fn public_address_needs_consent() {
    let consent = ["--listen", "0.0.0.0:80", "--i-know-unauthenticated"];
    let open = load("", &[], &consent).unwrap();
    assert!(open.is_public() && !open.needs_keys());
    let paths = open.endpoints.iter().map(|endpoint| endpoint.path.as_str());
    assert_eq!(paths.collect::<Vec<_>>(), ["/mcp", "/mcp-readonly", "/mcp-gpt"]);
    assert!(load("", &[], &["--listen", "[::1]:80"]).is_ok());
    let cli = Cli::parse_from(["lyceum", "--listen", "10.0.0.1:80"]);
    let environment = Environment::made_of(&[HOME]);
    let guarded = Config::load(cli.serve.settings, None, &environment).unwrap();
    assert!(guarded.needs_keys() && guarded.listen(true).is_ok(), "a key is consent");
    assert!(
        refused("", &[], &["--listen", "10.0.0.1:80"]).starts_with("command line: 10.0.0.1:80")
    );
}

/// A proxy in front of a loopback address makes a public server, too.
#[test]
fn names_beyond_loopback_need_consent_as_a_public_address_does() {
    for (names, setting) in [
        (r#"hosts = ["mcp.example.org"]"#, "hosts"),
        (r#"hosts = ["localhost", "*"]"#, "hosts"),
        (r#"origins = ["https://app.example.org"]"#, "origins"),
    ] {
        let told = refused(names, &[], &[]);
        assert!(told.starts_with(&format!("lyceum.toml:1: {setting} = ")), "{told}");
        assert!(told.contains("lyceum keys create"), "{told}");
        let open = load(names, &[], &["--i-know-unauthenticated"]).unwrap();
        assert!(open.is_public() && !open.needs_keys(), "{names}");
        assert!(!open.endpoints.iter().any(|endpoint| endpoint.path == "/mcp-gpt-full"), "{names}");
    }
    for names in [
        r#"hosts = ["localhost:8808", "127.0.0.1", "127.8.9.1:80", "[::1]"]"#,
        r#"origins = ["http://localhost:3000", "https://127.0.0.1"]"#,
    ] {
        assert!(!load(names, &[], &[]).unwrap().is_public(), "{names}");
    }
}

#[test]
fn data_goes_where_the_desktop_says() {
    let data = |variables: &[(&str, &str)]| {
        let environment = Environment::made_of(variables);
        Config::load(Settings::default(), None, &environment).map(|config| config.data)
    };
    assert_eq!(data(&[HOME, ("XDG_DATA_HOME", "/x")]).unwrap(), PathBuf::from("/x/lyceum"));
    let relative = [HOME, ("XDG_DATA_HOME", "x")];
    assert_eq!(data(&relative).unwrap(), PathBuf::from("/nobody/.local/share/lyceum"));
    let error = data(&[]).expect_err("nowhere").to_string();
    assert_eq!(error, "there is no home directory to keep data in; name one with --data DIR");
}

#[test]
fn reference_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == reference(),
        "run `cargo run -- config reference > docs/configuration.md` and commit it"
    );
}

#[test]
fn every_fixed_setting_that_changes_is_named_and_secrets_are_compared() {
    const TOKEN: &str = "[[endpoint]]\npath = \"/gpt/{token}\"\ntoken_env = ";
    const KEY: &str =
        "[embeddings]\nkind = \"openai\"\nurl = \"http://h\"\nmodel = \"m\"\nkey_env = ";
    const ENDPOINT: &str = "[[endpoint]]\npath = \"/mcp\"\n";
    let one_or_other = |table: &str| [format!("{table}\"ONE\""), format!("{table}\"OTHER\"")];
    let rows: &[([String; 2], &[&str])] = &[
        (one_or_other(TOKEN), &["endpoint"]),
        (one_or_other(KEY), &["embeddings"]),
        ([ENDPOINT.to_owned(), format!("{ENDPOINT}keys = [\"ana\"]")], &["endpoint"]),
        ([ENDPOINT.to_owned(), format!("{ENDPOINT}tools = [\"a\"]")], &[]),
        (["", "listen = \"127.0.0.1:1\""].map(str::to_owned), &["listen"]),
        (["", "i_know_unauthenticated = true"].map(str::to_owned), &["i_know_unauthenticated"]),
        (["", "data = \"/a\"\nlog = \"debug\""].map(str::to_owned), &["data", "log"]),
        (["", "hosts = [\"localhost:1\"]"].map(str::to_owned), &["hosts"]),
        (["", "origins = [\"http://localhost:1\"]"].map(str::to_owned), &["origins"]),
        (["", "[rest]\nkeys = []"].map(str::to_owned), &["rest"]),
        (["", "[documents]\nmax_bytes = 1"].map(str::to_owned), &["documents, index"]),
        (["", "[limits]\nsessions = 1"].map(str::to_owned), &["limits"]),
        (["", "[maintenance]\nrelist_seconds = 1"].map(str::to_owned), &["maintenance"]),
        (["", "[maintenance]\nidempotency_seconds = 1"].map(str::to_owned), &["maintenance"]),
        (["", "[[upstream]]\nname = \"a\"\nurl = \"http://h\""].map(str::to_owned), &[]),
        (["", "lockfile = \"/a\"\n[stdio]\nallowed_commands = [\"a\"]"].map(str::to_owned), &[]),
    ];
    let variables = [("ONE", "a secret of one"), ("OTHER", "the secret of another")];
    for ([before, after], expected) in rows {
        let [before, same, after] =
            [before, before, after].map(|file| load(file, &variables, &[]).unwrap());
        assert_eq!(before.fixed_but_other_in(&after), *expected, "{after:?}");
        assert!(before.fixed_but_other_in(&same).is_empty());
    }
}

#[test]
fn operations_say_how_much_memory_the_defaults_allow() {
    let config = load("", &[], &[]).unwrap();
    let bytes = super::limits::memory(&config.limits, config.policy.max_body);
    let docs = include_str!("../../../../docs/operations.md");
    let said = format!("{} MiB", bytes >> 20);
    assert!(docs.contains(&said), "docs/operations.md must say {said}");
}

#[test]
fn budgets_too_small_for_one_call_are_refused() {
    for (toml, least) in [
        ("[limits]\nwork_bytes = 1000", "134217728"),
        ("[limits]\nanswers_bytes = 1000", "134217728"),
        ("[limits]\nbodies_bytes = 1000", "100663296"),
        ("[limits]\nrelay_bytes = 1000", "100663296"),
        ("[limits]\nstreams_bytes = 1000", "1048576"),
        ("[documents]\nmax_bytes = 16777216", "536870912"),
    ] {
        let error = refused(toml, &[], &[]);
        assert!(error.contains(&format!("write {least} or more")), "{error}");
    }
}
