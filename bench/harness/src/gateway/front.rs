//! How each gateway is started in front of one server: its configuration and its command line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::case::Front;
use crate::programs::Programs;

/// FastMCP is a library; this is the program around it.
const FASTMCP: &str = "bench/peers/fastmcp_proxy.py";

/// The program and its arguments, for this port and with the server behind it on the other.
pub(crate) fn command_line(
    front: Front,
    programs: &Programs,
    port: u16,
    upstream: u16,
    scratch: &Path,
) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let url = format!("http://127.0.0.1:{upstream}/mcp");
    let owned = |arguments: &[&str]| arguments.iter().map(|&word| word.to_owned()).collect();
    match front {
        Front::Lyceum => {
            let config = format!("[[upstream]]\nname = \"up\"\nurl = \"{url}\"\n");
            lyceum(programs, port, &config, scratch)
        }
        Front::McpProxy => {
            let file = write(scratch, "proxy.toml", &mcp_proxy(port, &url))?;
            Ok((programs.peer("mcp-proxy")?.to_owned(), owned(&["--config", &file])))
        }
        Front::FastMcp => {
            let port = port.to_string();
            let arguments = owned(&[FASTMCP, "--port", &port, "--upstream", &url]);
            Ok((programs.peer("fastmcp")?.to_owned(), arguments))
        }
        Front::Nginx => {
            let file = write(scratch, "nginx.conf", &nginx(port, upstream, scratch))?;
            let (places, only) = (scratch.display().to_string(), "daemon off; master_process off;");
            let arguments = owned(&["-p", &places, "-c", &file, "-e", "stderr", "-g", only]);
            Ok((programs.peer("nginx")?.to_owned(), arguments))
        }
    }
}

/// `lyceum serve` with this configuration.
pub(super) fn lyceum(
    programs: &Programs,
    port: u16,
    config: &str,
    scratch: &Path,
) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let file = write(scratch, "lyceum.toml", config)?;
    let data = scratch.join("data").display().to_string();
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["serve", "--log", "error", "--config", &file, "--data", &data];
    let arguments = arguments.into_iter().chain(["--listen", &listen]);
    Ok((programs.lyceum.clone(), arguments.map(str::to_owned).collect()))
}

fn mcp_proxy(port: u16, url: &str) -> String {
    format!(
        "[proxy]\nname = \"bench\"\n\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\n\
         [[backends]]\nname = \"up\"\ntransport = \"http\"\nurl = \"{url}\"\n"
    )
}

/// One process, no log, and connections that are kept on both sides: the least nginx can do.
fn nginx(port: u16, upstream: u16, scratch: &Path) -> String {
    let places: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {}/{kind};\n", scratch.display()))
        .concat();
    format!(
        "pid {}/nginx.pid;
events {{}}
http {{
    access_log off;
    keepalive_requests 1000000000;
{places}    upstream up {{
        server 127.0.0.1:{upstream};
        keepalive 32;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://up;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }}
    }}
}}
",
        scratch.display()
    )
}

fn write(scratch: &Path, name: &str, text: &str) -> anyhow::Result<String> {
    let file = scratch.join(name);
    fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    Ok(file.display().to_string())
}
