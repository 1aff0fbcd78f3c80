//! Files as clients and Knox have them, and what becomes of them.

use super::*;

fn toml(text: &str) -> String {
    import(text).unwrap().to_toml()
}

/// Whether it is TOML, and of what.
fn parsed(text: &str) -> toml::Table {
    toml(text).parse().unwrap_or_else(|error| panic!("{error}\n{}", toml(text)))
}

#[test]
fn desktop_clients_are_understood() {
    let file = r#"{"mcpServers": {
        "filesystem": {"command": "npx", "args": ["-y", "@scope/server-filesystem", "/srv/a b"]},
        "GitHub": {"command": "docker", "args": ["run", "-i"], "cwd": "/srv",
            "env": {"GITHUB_TOKEN": "ghp_abcdef", "LOG_LEVEL": "debug", "N": 3, "WORK": "${env:W}"},
            "autoApprove": ["x"]},
        "remote": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer s3cret",
            "X-Team": "${env:TEAM}", "Accept-Language": "de"}},
        "off": {"command": "x", "args": ["y"], "disabled": true},
        "nothing": {"disabled": false}
    }}"#;
    let expected = r##"# "GitHub" is called github here
# github: set GITHUB_TOKEN where Lyceum starts; secrets are not copied
# github: set WORK where Lyceum starts; it was ${env:W}
# github: "autoApprove" is not carried over
# remote: set REMOTE_AUTHORIZATION to the value of its header "Authorization"; secrets are not copied
# off: it was switched off, so it is written as a comment
# "nothing" is left out: it has neither a command nor a URL

[[upstream]]
name = "filesystem"
command = ["npx", "-y", "@scope/server-filesystem", "/srv/a b"]

[[upstream]]
name = "github"
command = ["docker", "run", "-i"]
directory = "/srv"
env = ["GITHUB_TOKEN", "LOG_LEVEL=debug", "N=3", "WORK"]

[[upstream]]
name = "remote"
url = "https://h/mcp"
headers = { "Authorization" = "env:REMOTE_AUTHORIZATION", "X-Team" = "env:TEAM", "Accept-Language" = "de" }

# [[upstream]]
# name = "off"
# command = ["x", "y"]
"##;
    assert_eq!(toml(file), expected);
    assert_eq!(parsed(file)["upstream"].as_array().unwrap().len(), 3);
}

#[test]
fn every_client_has_its_own_words() {
    let rows = [
        (
            r#"{"servers": {"a": {"type": "http", "url": "http://h/mcp"}}, "inputs": []}"#,
            "http://h/mcp",
        ),
        (
            r#"{"mcp": {"servers": {"a": {"type": "sse", "url": "https://h/x/sse"}}}}"#,
            "sses://h/x/sse",
        ),
        (
            r#"{"mcpServers": {"a": {"serverUrl": "http://h/sse", "transport": "sse"}}}"#,
            "sse://h/sse",
        ),
        (r#"{"mcpServers": {"a": {"type": "sse", "url": "http://h/events"}}}"#, "http://h/events"),
        (r#"{"mcpServers": {"a": {"httpUrl": "http://h/mcp"}}}"#, "http://h/mcp"),
        (
            r#"{"context_servers": {"a": {"command": {"path": "x", "args": ["y"], "env": {"K_A": "1"}}}}}"#,
            r#"x y env K_A=1"#,
        ),
        (r#"{"context_servers": {"a": {"source": "custom", "command": "x", "args": []}}}"#, "x"),
        (r#"{"mcpServers": {"a": {"command": "npx -y server"}}}"#, "npx -y server"),
        (r#"{"mcpServers": {"a": {"command": "/opt/my app/run"}}}"#, "/opt/my app/run"),
        (
            r#"{"mcp": {"a": {"type": "local", "command": ["x", "y"], "environment": {"B": "c"}}}}"#,
            "x y env B=c",
        ),
        (
            "// mine\n{\"mcpServers\": {\"a\": {\"command\": \"x\", /* none */ \"args\": [\"y\",],},}}",
            "x y",
        ),
    ];
    for (file, expected) in rows {
        let imported = import(file).unwrap();
        let [upstream] = imported.upstreams.as_slice() else { panic!("{imported:?}") };
        let mut shown = match &upstream.place {
            Place::Command(words) => words.join(" "),
            Place::Url(url) => url.clone(),
        };
        if !upstream.env.is_empty() {
            shown = format!("{shown} env {}", upstream.env.join(" "));
        }
        assert_eq!(shown, expected, "{file}");
    }
}

#[test]
fn no_secret_gets_into_the_configuration() {
    let secrets = [
        ("API_KEY", "canary"),
        ("PLAIN", "sk-canary"),
        ("DATABASE_URL", "postgres://user:canary@h/db"),
        ("RANDOM", "canary0123456789abcdefghij"),
        ("GH_PAT", "canary"),
        ("MIXED", "canary-${env:X}"),
    ];
    for (name, value) in secrets {
        let file = format!(
            r#"{{"mcpServers": {{"a": {{"command": "x", "env": {{"{name}": "{value}"}},
               "headers": {{"X-Whatever": "{value}"}}}}}}}}"#
        );
        let written = toml(&file);
        assert!(!written.contains("canary"), "{written}");
        assert!(written.contains(&format!("env = [\"{name}\"]")), "{written}");
        assert!(written.contains("\"X-Whatever\" = \"env:A_X_WHATEVER\""), "{written}");
    }
    let open =
        [("LANG", "de_DE.UTF-8"), ("AUTH_ENABLED", "true"), ("ROOT", "/srv/files/2024/a-long-way")];
    for (name, value) in open {
        let file =
            format!(r#"{{"mcpServers":{{"a":{{"command":"x","env":{{"{name}":"{value}"}}}}}}}}"#);
        assert!(toml(&file).contains(&format!("env = [\"{name}={value}\"]")), "{name}");
    }
}

#[test]
fn secrets_that_cannot_be_moved_are_pointed_out() {
    let rows = [
        (r#""command": "x", "args": ["--api-key", "canary"]"#, "argument 2 seems to be a secret"),
        (r#""command": "x", "args": ["--token=canary"]"#, "argument 1 seems to be a secret"),
        (
            r#""command": "x", "args": ["--header", "Authorization: Bearer canary"]"#,
            "argument 2 seems",
        ),
        (r#""command": "x", "args": ["${input:k}"]"#, "its command holds a ${variable}"),
        (r#""url": "https://h/mcp?api_key=canary""#, "its URL seems to hold a secret"),
        (r#""url": "https://u:canary@h/mcp""#, "its URL seems to hold a secret"),
        (r#""command": "npx", "args": ["-y", "server", "--port=80", "--verbose"]"#, ""),
        (r#""url": "https://h/mcp?region=eu""#, ""),
    ];
    for (server, expected) in rows {
        let notes = import(&format!(r#"{{"mcpServers": {{"a": {{{server}}}}}}}"#)).unwrap().notes;
        let notes = notes.join("\n");
        assert!(notes.contains(expected) && !notes.contains("canary"), "{notes}");
        assert_eq!(notes.is_empty(), expected.is_empty(), "{notes}");
    }
}

#[test]
fn what_is_left_out_is_said() {
    let rows = [
        (
            r#""url": "ws://h/?key=canary""#,
            "left out: \"ws://...\" is not the URL of an upstream",
            "",
        ),
        (r#""url": "canary""#, "left out: \"://...\" is not the URL of an upstream", ""),
        (
            r#""command": "x", "url": "http://h""#,
            "a: it has a command, so its URL is not used",
            r#"command = ["x"]"#,
        ),
        (r#""command": "x", "env": {"N": null, "M": ""}"#, "", r#"env = ["M="]"#),
        (r#""command": "C:\\a b\\node.exe""#, "", r#"command = ["C:\\a b\\node.exe"]"#),
    ];
    for (server, note, written) in rows {
        let imported = import(&format!(r#"{{"mcpServers": {{"a": {{{server}}}}}}}"#)).unwrap();
        let (notes, toml) = (imported.notes.join("\n"), imported.to_toml());
        assert!(notes.contains(note) && !toml.contains("canary"), "{notes}");
        assert_eq!(notes.is_empty(), note.is_empty(), "{notes}");
        assert!(toml.contains(written), "{toml}");
    }
    let file = r#"{"mcpServers": {}, "projects": {"/p": {"mcpServers": {"a": {"command": "x"}}}}}"#;
    assert!(import(file).unwrap().notes[0].contains("single projects"));
    let file = r#"{"mcpServers": {}, "projects": {"/p": {}}}"#;
    assert_eq!(import(file).unwrap().notes.len(), 0);
}

const TOPOLOGY: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<topology>
  <gateway>
    <provider><role>authentication</role><name>ShiroProvider</name><enabled>true</enabled>
      <param><name>sessionTimeout</name><value>30</value></param></provider>
  </gateway>
  <service><role>WEBHDFS</role><url>http://h:50070</url></service>
  <service>
    <role>MCPPROXY</role><n>mcp</n><version>1.0.0</version>
    <param><name>mcp.servers</name><value>
      calc:stdio://python calc.py,
      My_Tools:http://h:1/mcp/?a=1&amp;b=2, old:sse://h:2, odd:ftp://h, broken
    </value></param>
    <param><n>mcp.stdio.allowed.commands</n><value><![CDATA[python, node]]></value></param>
    <param><name>mcp.debug</name><value>true</value></param>
    <param><name>mcp.bind.port</name><value>1</value></param>
  </service>
</topology>"#;

#[test]
fn k53_topologies_are_understood() {
    let expected = r##"# the provider authentication (ShiroProvider) is not carried over: keys and origins are configured here instead
# the service WEBHDFS does not speak MCP
# "broken" is left out: it is not name:url
# "My_Tools" is called my-tools here
# "odd" is left out: "ftp://h" is not the URL of an upstream; supported are stdio://, http://, https://, sse://, sses://, custom-http-sse://, custom-https-sse://
# mcp.debug is not carried over; set the log level instead
# the parameter mcp.bind.port is not carried over

[stdio]
allowed_commands = ["python", "node"]

[[upstream]]
name = "calc"
command = ["python", "calc.py"]

[[upstream]]
name = "my-tools"
url = "http://h:1/mcp/?a=1&b=2"
prefix = "My_Tools"

[[upstream]]
name = "old"
url = "sse://h:2"
"##;
    assert_eq!(toml(TOPOLOGY), expected);
    assert_eq!(parsed(TOPOLOGY)["upstream"].as_array().unwrap().len(), 3);
}

#[test]
fn servers_of_one_name_get_names_that_can_be_told_apart() {
    let topology = "<topology><service><role>MCPPROXY</role><param><name>mcp.servers</name><value>\
                    a:http://h:1,a:http://h:2,B:http://h:3,b:http://h:4,B:http://h:5\
                    </value></param></service></topology>";
    let imported = import(topology).unwrap();
    let prefix = |upstream: &ImportedUpstream| {
        upstream.prefix.clone().unwrap_or_else(|| upstream.name.clone())
    };
    let prefixes: Vec<String> = imported.upstreams.iter().map(prefix).collect();
    assert_eq!(prefixes, ["a", "a-2", "B", "b", "b-3"]);
    assert!(imported.notes.iter().any(|note| note.contains("begin with a-2")), "{imported:?}");
}

#[test]
fn files_that_are_none_are_refused() {
    let bomb = "<!DOCTYPE t [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><topology>&b;</topology>";
    let deep = "<a>".repeat(1_000);
    let large = format!("{{\"mcpServers\": {{}}, \"x\": \"{}\"}}", "x".repeat(MAX_FILE));
    let many: Vec<String> = (0..300).map(|n| format!(r#""s{n}": {{"command": "x"}}"#)).collect();
    let many = format!(r#"{{"mcpServers": {{{}}}}}"#, many.join(","));
    let rows: &[(&str, &str)] = &[
        (bomb, "it has a document type"),
        ("<topology>&b;</topology>", "entities of its own"),
        (&deep, "nested more than 16 deep"),
        ("<topology><service>", "ends too early"),
        ("<topology></service></topology>", "the XML cannot be read"),
        ("<topology/>", "no MCP servers in it; wanted is a topology"),
        (&large, "larger than"),
        (&many, "more than 256 servers"),
        ("{}", "no MCP servers in it; wanted is an object called mcpServers"),
        ("{\"mcpServers\": []}", "no MCP servers in it"),
        ("{\"mcpServers\": {\"a\": {}, \"a\": {}}}", "\"a\" appears twice"),
        ("hello", "the JSON cannot be read"),
        ("[]", "the JSON cannot be read"),
    ];
    for (file, expected) in rows {
        let error = import(file).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn whatever_stands_in_a_file_the_result_is_toml() {
    let odd = r#"quote\" back\\ line\nbell\u0007 del\u007f é \u202e [x] # = '''"#;
    let file = format!(
        r#"{{"mcpServers": {{"{odd}": {{"command": "{odd}", "args": ["{odd}"], "cwd": "{odd}",
           "env": {{"{odd}": "{odd}"}}, "headers": {{"{odd}": "{odd}", "accept": "{odd}"}},
           "{odd}": 1}}, "b": {{"command": "x", "disabled": true, "cwd": "{odd}"}}}}}}"#
    );
    let table = parsed(&file);
    let upstream = &table["upstream"][0];
    let expected = "quote\" back\\ line\nbell\u{7} del\u{7f} é \u{202e} [x] # = '''";
    assert_eq!(upstream["directory"].as_str(), Some(expected));
    assert_eq!(upstream["headers"]["accept"].as_str(), Some(expected));
    assert!(names::is_upstream(upstream["name"].as_str().unwrap()));
}
