//! What is said at the start: where the endpoint is, how a host is told of it, and what is not safe.

use super::settings::Settings;
use crate::logging::LogFormat;
use bowline_gateway::{
    child::{ChildSpec, StderrPolicy},
    stderr,
};
use serde_json::json;
use std::{
    fmt::Write as _,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// Programs that run another one, whose name says more than theirs.
const RUNNERS: [&str; 10] =
    ["npx", "bunx", "pnpx", "uvx", "pipx", "node", "bun", "deno", "python", "python3"];
/// Words of runners that stand before the name.
const RUNNER_WORDS: [&str; 3] = ["run", "exec", "dlx"];

/// What there is to say.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) url: String,
    pub(crate) snippet: String,
    /// One sentence each, the worst first.
    pub(crate) warnings: Vec<String>,
    /// What clients have to write in the place of the address that is shown.
    names: Option<String>,
    /// Where health and metrics are, if not beside the endpoint.
    admin: Option<SocketAddr>,
    command: String,
    child_log: &'static str,
}

impl Announcement {
    pub(crate) fn new(settings: &Settings, bound: SocketAddr, admin: Option<SocketAddr>) -> Self {
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}{}", local(bound), settings.path);
        Self {
            snippet: snippet(&server_name(&settings.child), &url, settings.tokens.is_some()),
            warnings: warnings(settings, bound),
            names: names(settings, bound),
            admin,
            command: settings.child.name.clone(),
            child_log: match settings.child.stderr {
                StderrPolicy::Discard => "what it writes to its stderr is thrown away (--stderr)",
                StderrPolicy::Inherit { .. } => "what it writes to its stderr appears here",
                _ => "what it writes to its stderr appears here, as log lines",
            },
            url,
        }
    }

    /// Says it on stderr: as text, or as log lines where those are for a machine.
    pub(crate) fn say(&self, format: LogFormat) {
        match format {
            // All at once, so that no log line comes between. A stderr that is gone is nobody's loss.
            LogFormat::Text => drop(stderr::writer().write_all(self.text().as_bytes())),
            LogFormat::Json => {
                for warning in &self.warnings {
                    tracing::warn!("{warning}");
                }
                if let Some(names) = &self.names {
                    tracing::info!("{names}");
                }
                tracing::info!(url = %self.url, command = %self.command, config = %self.snippet, admin = self.admin.map(tracing::field::display), "serving");
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            let _ = writeln!(text, "WARNING: {warning}");
        }
        if !self.warnings.is_empty() {
            text.push('\n');
        }
        let Self { url, snippet, command, child_log, .. } = self;
        let names = self.names.as_ref().map_or_else(String::new, |names| format!("{names}\n\n"));
        let admin = self.admin.map_or_else(String::new, |admin| {
            format!("Health and metrics: http://{admin}/healthz, /readyz, /metrics\n\n")
        });
        let _ = write!(
            text,
            "bowline {} serves {command} at\n\n    {url}\n\nFor the configuration of a host:\n\n{snippet}\n\n{names}{admin}\
             {command} is started when a client connects; {child_log}. Ctrl-C stops.\n\n",
            env!("CARGO_PKG_VERSION"),
        );
        text
    }
}

/// The address that a client on this machine uses.
fn local(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Said where --allow-host refuses the address that is shown: a configuration that was copied from here would get 403.
fn names(settings: &Settings, bound: SocketAddr) -> Option<String> {
    let local = local(bound);
    let checked = !settings.hosts.is_empty();
    let refused = checked && !settings.hosts.allow(local.to_string().as_bytes(), bound.ip().is_loopback());
    refused.then(|| {
        format!("Clients write a name that --allow-host lists in the place of {local}, which it refuses.")
    })
}

/// What stands for a token in the configuration of a host.
const TOKEN: &str = "Bearer YOUR_TOKEN";

fn snippet(name: &str, url: &str, token: bool) -> String {
    let mut server = json!({ "type": "http", "url": url });
    if token {
        server["headers"] = json!({ "Authorization": TOKEN });
    }
    let value = json!({ "mcpServers": { name: server } });
    serde_json::to_string_pretty(&value).expect("a JSON value can be written")
}

/// A name for the server: the program, or what a runner such as `npx` runs. No other argument: those may be secrets.
fn server_name(child: &ChildSpec) -> String {
    let mut name = child.name.clone();
    if RUNNERS.contains(&name.as_str())
        && let Some(package) = child
            .args
            .iter()
            .filter_map(|arg| arg.to_str())
            .find(|arg| !arg.starts_with('-') && !RUNNER_WORDS.contains(arg))
    {
        // The scope of a package goes with the folder of a script; then the version.
        let last = package.rsplit('/').next().unwrap_or(package);
        name = last.split(['@', '=']).find(|part| !part.is_empty()).unwrap_or_default().to_owned();
    }
    let stem = Path::new(&name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let plain: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' })
        .take(64)
        .collect();
    if plain.chars().any(|c| c.is_ascii_alphanumeric()) { plain } else { "server".into() }
}

fn warnings(settings: &Settings, bound: SocketAddr) -> Vec<String> {
    let mut warnings = Vec::new();
    let open = !bound.ip().is_loopback();
    if open && settings.tokens.is_none() {
        let mut open = format!(
            "{bound} can be reached from the network, and there is NO AUTHENTICATION: whoever reaches it runs the tools of \
             {}. Give tokens with --auth-token-file, listen on 127.0.0.1, or put an authenticating proxy in front and let \
             nobody else through.",
            settings.child.name
        );
        if settings.hosts.is_empty() {
            open.push_str(" The Host header is not checked; --allow-host NAME does.");
        }
        warnings.push(open);
    }
    if open && settings.tokens.is_some() && settings.tls.is_none() && !settings.trust_proxy {
        warnings.push(format!(
            "{bound} can be reached from the network, and tokens cross it unencrypted. Give a certificate with --tls-cert and \
             --tls-key, or put a proxy with TLS in front and say --trust-proxy."
        ));
    }
    if settings.origins.is_any() {
        warnings.push("--allow-origin * lets every web page that a user opens call this endpoint.".into());
    }
    if bound.ip().is_loopback() && settings.hosts.allow(b"rebound.invalid", false) {
        warnings.push("--allow-host * turns off what keeps web pages from reaching this machine by a name of their own.".into());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli, serve::settings::Environment};

    fn announcement(args: &[&str], bound: &str) -> Announcement {
        announced(args, bound, &|_| None)
    }

    fn announced(args: &[&str], bound: &str, environment: Environment<'_>) -> Announcement {
        let args = ["bowline", "serve"].into_iter().chain(args.iter().copied());
        let (options, matches) = cli::serve_for_tests(args).unwrap();
        let settings = Settings::new(options, &matches, environment).unwrap();
        Announcement::new(&settings, bound.parse().unwrap(), None)
    }

    #[test]
    fn the_snippet_is_what_hosts_read() {
        let said = announcement(&["--", "npx", "-y", "@scope/server-x@1.2"], "127.0.0.1:8000");
        let value: serde_json::Value = serde_json::from_str(&said.snippet).unwrap();
        let expected =
            json!({ "mcpServers": { "server-x": { "type": "http", "url": "http://127.0.0.1:8000/mcp" } } });
        assert_eq!(value, expected);
        let text = said.text();
        assert!(text.contains("http://127.0.0.1:8000/mcp\n") && text.contains(&said.snippet), "{text}");
        assert!(text.contains("stderr appears here") && !text.contains("WARNING"), "{text}");
    }

    #[test]
    fn tokens_are_asked_for_and_not_shown() {
        let tokens: Environment<'_> =
            &|name| (name == "BOWLINE_AUTH_TOKENS").then(|| "a=hunter2-hunter2-hunter2".into());
        let said = announced(&["--", "cat"], "127.0.0.1:1", tokens);
        assert!(said.snippet.contains(r#""Authorization": "Bearer YOUR_TOKEN""#), "{}", said.snippet);
        assert!(said.warnings.is_empty() && !said.text().contains("hunter2"), "{}", said.text());
        let said = announced(&["--", "cat"], "0.0.0.0:1", tokens);
        assert!(said.warnings[0].contains("unencrypted") && said.warnings.len() == 1, "{:?}", said.warnings);
        let said = announced(&["--trust-proxy", "--", "cat"], "0.0.0.0:1", tokens);
        assert!(said.warnings.is_empty(), "{:?}", said.warnings);
    }

    #[test]
    fn names() {
        for (line, name) in [
            (&["cat"][..], "cat"),
            (&["/opt/x/my server.sh"], "my-server"),
            (&["npx", "-y", "@modelcontextprotocol/server-everything"], "server-everything"),
            (&["uvx", "mcp-server-git==1.0", "--token", "hunter2"], "mcp-server-git"),
            (&["python3", "dir/server.py"], "server"),
            (&["deno", "run", "-A", "x.ts"], "x"),
            (&["npx", "-y"], "npx"),
            (&["npx", "..."], "server"),
            (&["docker", "run", "hunter2"], "docker"),
        ] {
            assert_eq!(server_name(&ChildSpec::new(line[0], line[1..].iter())), name, "{line:?}");
        }
    }

    #[test]
    fn arguments_are_not_shown() {
        let text =
            announcement(&["--env", "A=hunter2", "--", "x", "--token", "hunter2"], "127.0.0.1:1").text();
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn an_address_that_would_be_refused_is_not_left_standing_alone() {
        for (bound, hosts, refused) in [
            ("0.0.0.0:80", &["mcp.example.com"][..], true),
            ("0.0.0.0:80", &["mcp.example.com", "127.0.0.1"], false),
            ("0.0.0.0:80", &["*"], false),
            ("0.0.0.0:80", &[], false),
            ("127.0.0.1:80", &["mcp.example.com"], false),
        ] {
            let args: Vec<&str> =
                hosts.iter().flat_map(|host| ["--allow-host", host]).chain(["--", "cat"]).collect();
            let text = announcement(&args, bound).text();
            let said = text.contains("in the place of 127.0.0.1:80");
            assert_eq!(said, refused, "{bound} {hosts:?}: {text}");
        }
    }

    #[test]
    fn what_is_open_is_said_loudly() {
        for (bound, url) in [
            ("0.0.0.0:80", "http://127.0.0.1:80/mcp"),
            ("[::]:80", "http://[::1]:80/mcp"),
            ("192.0.2.1:80", "http://192.0.2.1:80/mcp"),
        ] {
            let said = announcement(&["--", "cat"], bound);
            assert_eq!(said.url, url);
            assert!(
                said.text().starts_with("WARNING: ") && said.text().contains("NO AUTHENTICATION"),
                "{bound}"
            );
            assert!(said.warnings[0].contains("Host header is not checked"));
        }
        let said = announcement(&["--allow-origin", "*", "--allow-host", "*", "--", "cat"], "[::1]:80");
        assert_eq!(said.warnings.len(), 2, "{:?}", said.warnings);
    }
}
