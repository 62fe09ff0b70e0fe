//! The command line: which command, with which options.

use crate::{
    USAGE,
    bench::BenchOptions,
    commands::{CallCommand, CompleteCommand, Job, ListCommand, PromptCommand, ReadCommand, WatchCommand},
    complain,
    connect::ConnectOptions,
    demo::DemoOptions,
    manual::{CompletionsCommand, ManCommand},
    serve::options::ServeOptions,
};
use clap::{
    ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{ffi::OsString, fmt, process::ExitCode};

/// MCP over Streamable HTTP that never drops work.
#[derive(Debug, Parser)]
#[command(
    name = "bowline",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<ServeOptions>),
    Connect(Box<ConnectOptions>),
    List(Box<ListCommand>),
    Call(Box<CallCommand>),
    Read(Box<ReadCommand>),
    Prompt(Box<PromptCommand>),
    Complete(Box<CompleteCommand>),
    Watch(Box<WatchCommand>),
    Bench(BenchOptions),
    Demo(DemoOptions),
    Completions(CompletionsCommand),
    Man(ManCommand),
}

/// What is to be done.
pub(crate) enum Parsed {
    /// `bowline bench`.
    Bench(BenchOptions),
    /// `bowline demo`.
    Demo(DemoOptions),
    /// `bowline serve`, with what says which options were typed.
    Serve(Box<ServeOptions>, ArgMatches),
    /// `bowline connect`.
    Connect(Box<ConnectOptions>),
    /// `bowline list`, `call` and the others that do one thing with a server.
    Job(Box<Job>),
    /// `bowline completions`.
    Completions(CompletionsCommand),
    /// `bowline man`.
    Man(ManCommand),
}

impl fmt::Debug for Parsed {
    /// Without the words that were typed, which may be secrets: clap's matches hold all of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bench(options) => options.fmt(f),
            Self::Demo(options) => options.fmt(f),
            Self::Serve(options, _) => options.fmt(f),
            Self::Connect(options) => options.fmt(f),
            Self::Job(job) => job.fmt(f),
            Self::Completions(command) => command.fmt(f),
            Self::Man(command) => command.fmt(f),
        }
    }
}

/// Why nothing is done.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Wrong usage, or a wish for help or the version.
    Clap(clap::Error),
    /// An option of another program that has another name here, or none.
    Foreign(&'static str, &'static str),
}

impl Refused {
    /// Says it and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Clap(error) => {
                // Help and version go to stdout, everything else to stderr; when that is gone, nobody is told.
                let _ = error.print();
                if error.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS }
            }
            Self::Foreign(option, advice) => {
                complain(&format_args!("{option} is not an option here: {advice}"));
                USAGE.into()
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clap(error) => write!(f, "{error}"),
            Self::Foreign(option, advice) => write!(f, "{option}: {advice}"),
        }
    }
}

/// Options of supergateway, mcp-proxy and mcpo that mean something else here, or nothing.
const FOREIGN: [(&str, &str); 22] = [
    (
        "--cors",
        "name the web origins that may call, with --allow-origin https://app.example.com (or `*` for any)",
    ),
    ("--healthEndpoint", "GET /healthz and /readyz are always served"),
    ("--ssePath", "the old HTTP+SSE transport is not served; clients use Streamable HTTP at --path"),
    ("--messagePath", "the old HTTP+SSE transport is not served; clients use Streamable HTTP at --path"),
    ("--baseUrl", "no address is sent to clients, so none is needed; --path sets the path"),
    ("--sse", "serving a remote server is not supported yet; give the command of a stdio server"),
    ("--streamableHttp", "serving a remote server is not supported yet; give the command of a stdio server"),
    (
        "--header",
        "it belongs to remote servers, which are not supported yet; --env sets a variable of the command",
    ),
    (
        "--oauth2Bearer",
        "it belongs to remote servers, which are not supported yet; --env sets a variable of the command",
    ),
    ("--protocolVersion", "the revision is negotiated with each client and with the command"),
    ("--pass-environment", "say --pass-env all (the default), none, or names"),
    ("--no-pass-environment", "say --pass-env none"),
    ("--named-server", "one command is served for now; start one bowline for each"),
    ("--named-server-config", "one command is served for now; start one bowline for each"),
    ("--transport", "Streamable HTTP is always what is served; leave it out"),
    ("--server", "Streamable HTTP is always what is served; leave it out"),
    ("--endpoint", "say --path"),
    ("--streamEndpoint", "say --path"),
    ("--maxBodySize", "say --body-limit 4MiB"),
    (
        "--apiKey",
        "write NAME=TOKEN into a file and say --auth-token-file FILE; clients send it as a bearer token",
    ),
    (
        "--api-key",
        "write NAME=TOKEN into a file and say --auth-token-file FILE; clients send it as a bearer token",
    ),
    ("--debug", "say -v, or --log-level debug"),
];

/// Reads a command line, its first word the name of the program.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, Refused> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    // `bowline --stdio "..."`, as supergateway is called.
    if args
        .get(1)
        .and_then(|first| first.to_str())
        .is_some_and(|first| first.split('=').next() == Some("--stdio"))
    {
        args.insert(1, "serve".into());
    }
    // A link named mcp-remote, and an address alone, mean what they do there.
    let name = args.first().map(std::path::Path::new).and_then(std::path::Path::file_stem);
    let is_address = |word: &OsString| {
        word.to_str().is_some_and(|word| word.starts_with("http://") || word.starts_with("https://"))
    };
    if name.is_some_and(|name| name == "mcp-remote") || args.get(1).is_some_and(is_address) {
        args.insert(1, "connect".into());
    }
    let mut matches = command().try_get_matches_from(args).map_err(refused)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| refused(error.format(&mut command())))?;
    let job = |job| Ok(Parsed::Job(Box::new(job)));
    match cli.command {
        Command::Bench(options) => Ok(Parsed::Bench(options)),
        Command::Demo(options) => Ok(Parsed::Demo(options)),
        Command::Serve(options) => {
            let (_, matches) = matches.remove_subcommand().expect("a command was read from it");
            Ok(Parsed::Serve(options, matches))
        }
        Command::Connect(options) => Ok(Parsed::Connect(options)),
        Command::List(command) => job(Job::List(*command)),
        Command::Call(command) => job(Job::Call(*command)),
        Command::Read(command) => job(Job::Read(*command)),
        Command::Prompt(command) => job(Job::Prompt(*command)),
        Command::Complete(command) => job(Job::Complete(*command)),
        Command::Watch(command) => job(Job::Watch(*command)),
        Command::Completions(command) => Ok(Parsed::Completions(command)),
        Command::Man(command) => Ok(Parsed::Man(command)),
    }
}

fn refused(error: clap::Error) -> Refused {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
    {
        let name = argument.split(['=', ' ']).next().unwrap_or_default();
        if let Some((name, advice)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
            return Refused::Foreign(name, advice);
        }
    }
    Refused::Clap(error)
}

/// The command line as `clap` knows it. Variables that are empty count as absent, as compose files set them, and help does
/// not show what they hold.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| {
            sub.mut_args(|arg| {
                let empty = arg
                    .get_env()
                    .is_some_and(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()));
                let arg = arg.hide_env_values(true);
                if empty { arg.env(None::<&str>) } else { arg }
            })
        });
    }
    command
}

/// The options of `serve`, for tests of what they mean.
#[cfg(test)]
pub(crate) fn serve_for_tests<'a>(
    args: impl IntoIterator<Item = &'a str>,
) -> Result<(ServeOptions, ArgMatches), Refused> {
    match parse(args.into_iter().map(OsString::from))? {
        Parsed::Serve(options, matches) => Ok((*options, matches)),
        other => panic!("not a serve command: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn debug_shows_nothing_that_was_typed() {
        for line in [
            "bench http://h/?k=hunter2 -H A:hunter2 --arguments {\"a\":\"hunter2\"}",
            "connect https://h/?k=hunter2 --token hunter2 -H A:hunter2",
            "call https://h/?k=hunter2 tool a=hunter2 -H A:hunter2 --json {\"a\":\"hunter2\"}",
            "call tool -- server --password hunter2",
            "list https://h/?k=hunter2",
            "read https://h/?k=hunter2 a:hunter2",
            "prompt https://h/?k=hunter2 p a=hunter2",
            "complete https://h/?k=hunter2 p a=hunter2",
            "watch https://h/?k=hunter2 a:hunter2",
            "serve --store redis://u:hunter2@h --env K=hunter2 -- server --password hunter2",
            "serve --stdio server_hunter2",
        ] {
            let words = ["bowline"].into_iter().chain(line.split(' ')).map(OsString::from);
            let shown = format!("{:?}", parse(words));
            assert!(shown.starts_with("Ok(") && !shown.contains("hunter2"), "{line}: {shown}");
        }
    }

    #[test]
    fn every_visible_option_has_a_variable_of_its_name() {
        let command = command();
        let serve = command.find_subcommand("serve").unwrap();
        for arg in serve.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let Some(long) =
                arg.get_long().filter(|long| !matches!(*long, "help" | "env" | "verbose" | "key-file"))
            else {
                continue;
            };
            let name = format!("BOWLINE_{}", long.to_ascii_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(name.as_str()), "--{long}");
        }
    }

    #[test]
    fn every_option_is_explained() {
        let mut command = command();
        let help = command.find_subcommand_mut("serve").unwrap().render_long_help().to_string();
        for word in
            ["Exit codes", "SIGTERM", "500ms", "BOWLINE_KEY", "/readyz", "--max-connection <DURATION>"]
        {
            assert!(help.contains(word), "{word}");
        }
        for arg in command.find_subcommand("serve").unwrap().get_arguments() {
            assert!(arg.get_help().is_some(), "{}", arg.get_id());
        }
    }

    #[test]
    fn every_option_is_in_its_document() {
        let command = command();
        for (page, text, names) in [
            ("options.md", include_str!("../../../docs/options.md"), &["serve"][..]),
            ("connect.md", include_str!("../../../docs/connect.md"), &["connect"]),
            (
                "command-line.md",
                include_str!("../../../docs/command-line.md"),
                &["list", "call", "read", "prompt", "complete", "watch"],
            ),
        ] {
            for name in names {
                let sub = command.find_subcommand(name).unwrap();
                for arg in sub.get_arguments().filter(|arg| !arg.is_hide_set()) {
                    let Some(long) = arg.get_long().filter(|long| *long != "help") else { continue };
                    let named = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
                    let wanted = format!("--{long}");
                    // Those of streams are in a page of their own, named together.
                    assert!(
                        named.into_iter().any(|word| word == wanted),
                        "{name} {wanted} is not in docs/{page}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_command_explains_each_of_its_options() {
        for sub in command().get_subcommands() {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            for arg in sub.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{} {}", sub.get_name(), arg.get_id());
            }
        }
    }

    #[test]
    fn an_address_alone_and_a_link_named_mcp_remote() {
        for line in [
            &["bowline", "https://a.example/mcp", "3334", "--debug"][..],
            &["/usr/bin/mcp-remote", "https://a.example/mcp", "3334", "--debug"],
            &["mcp-remote", "--debug", "https://a.example/mcp", "3334"],
        ] {
            let Ok(Parsed::Connect(options)) = parse(line.iter().map(OsString::from)) else {
                panic!("{line:?}")
            };
            assert_eq!((options.url.as_str(), options.callback_port), ("https://a.example/mcp", Some(3334)));
            assert!(options.debug);
        }
    }

    #[test]
    fn options_of_other_programs_are_explained() {
        for line in [
            &["serve", "--cors"][..],
            &["serve", "--ssePath=/x"],
            &["serve", "--pass-environment", "--", "cat"],
            &["--stdio", "cat", "--baseUrl", "x"],
        ] {
            let args = ["bowline"].iter().chain(line).copied().map(OsString::from);
            assert!(matches!(parse(args), Err(Refused::Foreign(..))), "{line:?}");
        }
        let args = ["bowline", "serve", "--lsiten", "x", "--", "cat"].map(OsString::from);
        assert!(matches!(parse(args), Err(Refused::Clap(_))));
    }

    #[test]
    fn a_call_as_supergateway_serves() {
        let (options, _) = serve_for_tests(["bowline", "--stdio", "npx x", "--port", "9"]).unwrap();
        assert_eq!((options.child.stdio.as_deref(), options.network.port), (Some("npx x"), Some(9)));
    }
}
