//! The child: its command, variables and folder.

use super::{
    options::{ChildMode, ChildOptions, StderrMode},
    settings::Environment as Variables,
};
use bowline_gateway::child::{ChildSpec, Environment, StderrPolicy};
use std::{ffi::OsString, time::Duration};

/// Why there is no child. Never shows a value of a variable: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(
        "no command: say which MCP server to serve, such as `bowline serve -- npx -y @modelcontextprotocol/server-everything`"
    )]
    None,
    #[error("both --stdio and a command after `--` were given; give one")]
    Both,
    #[error("--stdio: the command is empty")]
    Empty,
    #[error("--stdio: a quote is not closed, or a backslash ends the text")]
    Quote,
    #[error(
        "--env needs NAME=VALUE, such as --env API_URL=http://localhost:9 ({0}; what was given is not shown, it may be a secret)"
    )]
    Variable(String),
    #[error(
        "BOWLINE_ENV: a quote is not closed; write variables separated by blanks, such as A=1 B='two words'"
    )]
    Variables,
    #[error("--pass-env: {0:?} is not the name of a variable; write all, none, or names separated by commas")]
    Name(String),
}

/// What is started, and how often.
#[derive(Debug)]
pub(crate) struct ChildSettings {
    pub(crate) spec: ChildSpec,
    pub(crate) mode: Option<ChildMode>,
    pub(crate) pool: Option<usize>,
    pub(crate) init_timeout: Duration,
    pub(crate) max_children: usize,
    pub(crate) modern: ModernSettings,
}

/// What clients of the modern revision may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModernSettings {
    pub(crate) max_children: usize,
    pub(crate) idle: Duration,
    pub(crate) join_reissued: Option<Duration>,
}

/// The child of a command line. `stdio_typed`: `--stdio` did not come from its variable, over which a command wins.
pub(crate) fn child_spec(
    command: Vec<OsString>,
    options: ChildOptions,
    stdio_typed: bool,
    variables: Variables<'_>,
) -> Result<ChildSettings, CommandError> {
    let mut words = match options.stdio {
        Some(_) if !command.is_empty() && stdio_typed => return Err(CommandError::Both),
        Some(text) if command.is_empty() => {
            shlex::split(&text).ok_or(CommandError::Quote)?.into_iter().map(OsString::from).collect()
        }
        _ if command.is_empty() => return Err(CommandError::None),
        _ => command,
    }
    .into_iter();
    let program = words.next().filter(|program| !program.is_empty()).ok_or(CommandError::Empty)?;
    let mut spec = ChildSpec::new(program, words);
    spec.environment = environment(&options.pass_env, &options.env, variables)?;
    spec.stderr = match options.stderr {
        StderrMode::Inherit => StderrPolicy::Inherit { prefix: format!("[{}] ", spec.name) },
        StderrMode::Log => StderrPolicy::Log,
        StderrMode::Discard => StderrPolicy::Discard,
    };
    spec.cwd = options.cwd;
    Ok(ChildSettings {
        spec,
        mode: options.child,
        pool: options.pool,
        init_timeout: options.init_timeout,
        max_children: options.max_children,
        modern: ModernSettings {
            max_children: options.max_modern_children,
            idle: options.modern_idle,
            join_reissued: options.join_reissued,
        },
    })
}

fn environment(pass: &str, typed: &[String], variables: Variables<'_>) -> Result<Environment, CommandError> {
    let mut environment = match pass.trim() {
        "all" => Environment::inherit(),
        "none" => Environment::only([] as [&str; 0]),
        names => {
            let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            if let Some(wrong) = names.iter().find(|name| name.contains(['=', ' ', '\0'])) {
                // Up to the sign only: somebody may have meant --env.
                return Err(CommandError::Name(wrong.split('=').next().unwrap_or_default().into()));
            }
            Environment::only(names)
        }
    };
    let listed = match variables("BOWLINE_ENV").filter(|value| !value.is_empty()) {
        Some(value) => value.to_str().and_then(shlex::split).ok_or(CommandError::Variables)?,
        None => Vec::new(),
    };
    // What is typed comes later, and wins.
    for (at, pair) in listed.iter().chain(typed).enumerate() {
        let from = || {
            if at < listed.len() {
                format!("variable {} of BOWLINE_ENV", at + 1)
            } else {
                format!("the {}. one", at + 1 - listed.len())
            }
        };
        match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() && !pair.contains('\0') => {
                environment = environment.set(name, value);
            }
            _ => return Err(CommandError::Variable(from())),
        }
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn child(args: &[&str], env: Option<&str>) -> Result<ChildSpec, CommandError> {
        let args = ["bowline", "serve"].into_iter().chain(args.iter().copied());
        let (options, matches) = cli::serve_for_tests(args).unwrap();
        let typed = matches.value_source("stdio") == Some(clap::parser::ValueSource::CommandLine);
        child_spec(options.command, options.child, typed, &|name| {
            (name == "BOWLINE_ENV").then(|| env.map(OsString::from)).flatten()
        })
        .map(|child| child.spec)
    }

    #[test]
    fn a_command_keeps_its_own_options() {
        let spec = child(&["--", "npx", "-y", "x", "--port", "1", "--", "z"], None).unwrap();
        assert_eq!(spec.program, "npx");
        assert_eq!(spec.args, ["-y", "x", "--port", "1", "--", "z"]);
        // Also without the dashes in front, as mcp-proxy has it.
        let spec = child(&["--port", "1", "npx", "-y", "x", "--help"], None).unwrap();
        assert_eq!(spec.args, ["-y", "x", "--help"]);
    }

    #[test]
    fn one_string_is_split_as_a_shell_would() {
        let spec = child(&["--stdio", "python3 'my server.py' --name \"a b\" c\\ d"], None).unwrap();
        assert_eq!((spec.program.to_str(), spec.name.as_str()), (Some("python3"), "python3"));
        assert_eq!(spec.args, ["my server.py", "--name", "a b", "c d"]);
        assert_eq!(child(&["--stdio", "x 'y"], None).unwrap_err(), CommandError::Quote);
        assert_eq!(child(&["--stdio", " "], None).unwrap_err(), CommandError::Empty);
        assert_eq!(child(&["--", ""], None).unwrap_err(), CommandError::Empty);
    }

    #[test]
    fn surroundings() {
        let spec = child(&["--cwd", "/tmp", "--stderr", "inherit", "--", "/bin/cat"], None).unwrap();
        assert_eq!(spec.cwd.as_deref(), Some(std::path::Path::new("/tmp")));
        assert_eq!(spec.stderr, StderrPolicy::Inherit { prefix: "[cat] ".into() });
        let spec = child(&["--env", "A=1=2", "-e", "B=", "--", "cat"], Some("A=0 C='x y'")).unwrap();
        let shown = format!("{:?}", spec.environment);
        for name in ["A", "B", "C"] {
            assert!(shown.contains(&format!("\"{name}\"")), "{shown}");
        }
    }

    #[test]
    fn errors_do_not_show_values() {
        for (args, env) in [
            (&["--env", "hunter2", "--", "cat"][..], None),
            (&["--env", "=hunter2", "--", "cat"], None),
            (&["--", "cat"], Some("A=1 hunter2")),
            (&["--", "cat"], Some("A='hunter2")),
            (&["--pass-env", "PASSWORD=hunter2", "--", "cat"], None),
        ] {
            let error = child(args, env).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }
}
