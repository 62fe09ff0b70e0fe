//! The actions that run inside Redis, as Functions or as scripts of the same source.
//!
//! The names of library and functions carry a number of their layout and a sum of their source: backends of two versions use
//! one server side by side, and loading a library again replaces it by itself.

use redis::{Cmd, Script, cmd};
use std::{fmt::Write as _, sync::LazyLock};

/// The version of what is kept in Redis. Another number means: cannot be shared with this one.
pub(crate) const LAYOUT: u32 = 1;

const SOURCE: &str = concat!(
    include_str!("lua/common.lua"),
    include_str!("lua/streams.lua"),
    include_str!("lua/mailboxes.lua"),
    include_str!("lua/sessions.lua"),
    include_str!("lua/backends.lua"),
    include_str!("lua/waiters.lua"),
);

macro_rules! actions {
    ($($variant:ident $name:literal $memory:ident)+) => {
        /// One action: one call, one round trip, atomic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Action { $($variant),+ }

        impl Action {
            const ALL: &[Self] = &[$(Self::$variant),+];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Whether it may run where Redis has no memory left: it takes none, or it frees some, or a call could not end.
            const fn in_need(self) -> bool {
                match self { $(Self::$variant => $memory),+ }
            }
        }
    };
}

/// Names for the last column of the list.
const TAKES: bool = false;
const NEEDED: bool = true;

actions! {
    Create "create" TAKES
    CreateSealed "create_sealed" TAKES
    Append "append" TAKES
    Seal "seal" NEEDED
    TakeOver "take_over" NEEDED
    Read "read" NEEDED
    Attach "attach" NEEDED
    Hint "hint" NEEDED
    Remove "remove" NEEDED
    Tail "tail" NEEDED
    Put "put" TAKES
    Letters "letters" NEEDED
    Empty "empty" NEEDED
    OpenSession "open_session" TAKES
    LoadSession "load_session" NEEDED
    UpdateSession "update_session" TAKES
    TouchSession "touch_session" NEEDED
    EndSession "end_session" NEEDED
    Enlist "enlist" NEEDED
    Renew "renew" NEEDED
    Lease "lease" NEEDED
    Release "release" NEEDED
    Backends "backends" NEEDED
    Forget "forget" NEEDED
    Owned "owned" NEEDED
    Layout "layout" NEEDED
    Shared "shared" NEEDED
    Swap "swap" NEEDED
    Watch "watch" NEEDED
    Unwatch "unwatch" NEEDED
    Wake "wake" NEEDED
}

/// The source as a library of Functions, and the names in it.
struct Library {
    name: String,
    source: String,
    functions: Vec<String>,
    scripts: Vec<(String, Script)>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let name = format!("bowline_{LAYOUT}_{:08x}", sum(SOURCE));
    let mut source = format!("#!lua name={name}\n{SOURCE}");
    let mut functions = Vec::new();
    let mut scripts = Vec::new();
    for action in Action::ALL {
        let function = format!("{name}_{}", action.name());
        let flags = if action.in_need() { "'allow-oom'" } else { "" };
        let _ = writeln!(
            source,
            "redis.register_function{{ function_name = '{function}', callback = actions.{}, flags = {{ {flags} }} }}",
            action.name()
        );
        functions.push(function);
        let flags = if action.in_need() { " flags=allow-oom" } else { "" };
        let script = format!("#!lua{flags}\n{SOURCE}return actions.{}(KEYS, ARGV)\n", action.name());
        scripts.push((script.clone(), Script::new(&script)));
    }
    Library { name, source, functions, scripts }
});

/// FNV-1a: tells sources apart, and is the same everywhere.
fn sum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Whether the server runs its own functions or the scripts that are sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Function,
    Script,
}

impl Action {
    /// The command, ready for the number of keys, the keys and the arguments.
    pub(crate) fn command(self, form: Form) -> Cmd {
        let at = self as usize;
        match form {
            Form::Function => {
                let mut command = cmd("FCALL");
                command.arg(&LIBRARY.functions[at]);
                command
            }
            Form::Script => {
                let mut command = cmd("EVALSHA");
                command.arg(LIBRARY.scripts[at].1.get_hash());
                command
            }
        }
    }

    /// The command with the source in it, for a server that does not know the script yet.
    pub(crate) fn with_source(self) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(&LIBRARY.scripts[self as usize].0);
        command
    }
}

/// The command that loads the library.
pub(crate) fn load() -> Cmd {
    let mut command = cmd("FUNCTION");
    command.arg("LOAD").arg("REPLACE").arg(&LIBRARY.source);
    command
}

/// What the library is called.
pub(crate) fn library() -> &'static str {
    &LIBRARY.name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_in_the_source_and_nothing_else() {
        let defined: Vec<_> = SOURCE
            .lines()
            .filter_map(|line| line.strip_prefix("function actions.")?.split('(').next())
            .collect();
        let named: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
        assert_eq!(defined, named);
    }

    #[test]
    fn names_tell_layout_and_source() {
        assert!(library().starts_with("bowline_1_"), "{}", library());
        assert_eq!(sum(""), 0x811c_9dc5);
        assert_ne!(sum("a"), sum("b"));
        assert!(LIBRARY.functions.iter().all(|name| name.starts_with(library())));
    }
}
