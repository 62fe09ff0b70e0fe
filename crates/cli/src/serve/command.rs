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
        "--stdio: no shell is used, so {what} does not work; {instead}, or write --stdio \"sh -c '...'\" with the whole line in place of the dots"
    )]
    Shell { what: &'static str, instead: &'static str },
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
            if let Some(error) = shell_syntax(&text) {
                return Err(error);
            }
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

/// What only a shell understands in a command that stands in one text: others run it in a shell. What is quoted is meant as it is.
fn shell_syntax(text: &str) -> Option<CommandError> {
    let words = bare_words(text);
    let error = |what, instead| Some(CommandError::Shell { what, instead });
    let first = words.first()?;
    let (name, assigns) = first.split_once('=').map_or(("", false), |(name, _)| (name, true));
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    if assigns && is_name(name) {
        return error("a variable in front of the command", "give it as --env NAME=VALUE");
    }
    if first == "cd" {
        return error("cd", "give the folder as --cwd FOLDER");
    }
    for word in &words {
        match word.as_str() {
            "&&" | "||" | ";" | "&" => {
                return error("more than one command", "serve the last one and prepare the rest before");
            }
            "|" | "|&" => return error("a pipe", "serve the MCP server alone"),
            ">" | ">>" | "<" | "2>" | "2>>" | "&>" | "2>&1" | "1>&2" => {
                return error("a redirection", "leave it out (--stderr says where stderr goes)");
            }
            word if word.ends_with(';') => {
                return error("more than one command", "serve the last one and prepare the rest before");
            }
            word if word.starts_with("~/") => return error("~", "write the whole path"),
            word if names_variable(word) => {
                return error(
                    "$NAME",
                    "write the value (variables reach the server by themselves, see --pass-env)",
                );
            }
            _ => {}
        }
    }
    None
}

/// Whether a shell would put something else in the place of a part of it.
fn names_variable(word: &str) -> bool {
    word.split('$')
        .skip(1)
        .any(|after| after.starts_with(|c: char| c.is_ascii_alphabetic() || "_{(".contains(c)))
}

/// The words of a text as a shell would split it, without those that hold a quote or a backslash.
fn bare_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_bare, mut quote) = (String::new(), true, None);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('"') | None, '\\') => {
                characters.next();
                is_bare = false;
            }
            (Some(_), _) => {}
            (None, '"' | '\'') => {
                quote = Some(character);
                // A value may be quoted: what counts stands in front of it.
                is_bare &= word.contains('=');
            }
            (None, _) if character.is_whitespace() => {
                if is_bare && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if !is_bare {
                    words.push(String::new());
                }
                word.clear();
                is_bare = true;
            }
            (None, _) => word.push(character),
        }
    }
    if is_bare && !word.is_empty() {
        words.push(word);
    }
    words
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
    fn what_needs_a_shell_is_refused_and_says_what_to_do() {
        for (text, instead) in [
            ("API_KEY=hunter2 python3 x.py", "--env NAME=VALUE"),
            ("A='hunter2 x' python3 x.py", "--env NAME=VALUE"),
            ("cd /srv/x && npm start", "--cwd FOLDER"),
            ("npm ci && npm start", "more than one command"),
            ("npm ci ; npm start", "more than one command"),
            ("npm ci; npm start", "more than one command"),
            ("node $HOME/x.js", "write the value"),
            ("~/bin/server", "the whole path"),
            ("python3 x.py | tee log", "a pipe"),
            ("python3 x.py 2> log", "--stderr"),
        ] {
            let error = child(&["--stdio", text], None).unwrap_err().to_string();
            assert!(error.contains("no shell is used") && error.contains(instead), "{error}");
            assert!(error.contains("sh -c") && !error.contains("hunter2"), "{error}");
        }
        // Quoted it is an argument like any other, and so it is after the dashes.
        for (text, args) in [
            ("sh -c 'cd /x && A=1 exec npm start | tee'", &["-c", "cd /x && A=1 exec npm start | tee"][..]),
            ("x '|' \"&&\" \\; --a=b", &["|", "&&", ";", "--a=b"]),
            ("x A=1 cd", &["A=1", "cd"]),
            ("x '$HOME' ^a$ a~/b", &["$HOME", "^a$", "a~/b"]),
            ("./a=b/x y", &["y"]),
            ("\"A=1\" y", &["y"]),
        ] {
            assert_eq!(child(&["--stdio", text], None).unwrap().args, args, "{text}");
        }
        assert_eq!(child(&["--", "cat", "|", "A=1"], None).unwrap().args, ["|", "A=1"]);
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
