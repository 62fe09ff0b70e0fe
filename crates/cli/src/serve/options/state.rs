//! What outlives a process, and how one takes over from another.

use crate::untold::untold;
use crate::{duration, size};
use bowline_store_sqlite::Durability;
use clap::ValueEnum;
use std::time::Duration;

untold!(StateOptions);

/// What becomes of a call whose process died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TakeoverOption {
    /// It ends with an error.
    #[default]
    Error,
    /// It is run again where its tool may run twice; else it ends with an error.
    Rerun,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Several processes")]
pub(crate) struct StateOptions {
    /// Where sessions, running calls and results are kept: `memory`, or what several processes share, at once or one after another:
    /// `sqlite:PATH` on one machine, `redis://HOST` for many.
    #[arg(
        long,
        value_name = "STORE",
        env = "BOWLINE_STORE",
        default_value = "memory",
        hide_env_values = true
    )]
    pub(crate) store: String,

    /// What it means that a `sqlite:` store has kept something: `full` outlives a power cut (one `fsync` for each group of changes), `os`
    /// a crash of the process only, and is faster.
    #[arg(long, value_name = "full|os", env = "BOWLINE_STORE_DURABILITY", default_value = "full", value_parser = durability)]
    pub(crate) store_durability: Durability,

    /// What all keys of a `redis:` store start with, so that several deployments can share one server.
    #[arg(long, value_name = "TEXT", env = "BOWLINE_STORE_PREFIX", default_value = "bowline")]
    pub(crate) store_prefix: String,

    /// Lets several processes listen on the same address (`SO_REUSEPORT`): start the new one, then stop the old one. It takes no new
    /// connections from then on. A socket that systemd hands over (`LISTEN_FDS`) is used without this option.
    #[arg(long, env = "BOWLINE_REUSE_PORT", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) reuse_port: bool,

    /// What becomes of the running calls of a process that died, where several share a --store: `error` ends them, and their clients are
    /// told that they may have run; `rerun` runs those again, on another process, whose tool is marked `readOnlyHint` or
    /// `idempotentHint`, and ends the others.
    #[arg(long, value_name = "HOW", env = "BOWLINE_TAKEOVER", value_enum, default_value_t)]
    pub(crate) takeover: TakeoverOption,

    /// With --takeover rerun: how often one call is run again. A call that kills its process kills one more each time.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_RERUNS", value_parser = clap::value_parser!(u32).range(1..=100), default_value = "1")]
    pub(crate) max_reruns: u32,

    /// With --takeover rerun: how large a call may be, with its arguments, that is kept in the --store to be run again, at most 16MiB. A
    /// larger one ends with an error if its process dies.
    #[arg(long, value_name = "SIZE", env = "BOWLINE_MAX_RERUN_BYTES", value_parser = rerun_bytes, default_value = "64KiB")]
    pub(crate) max_rerun_bytes: u64,

    /// How often the key that the processes of a --store share is replaced, where no key was given. What the one before signed stays
    /// valid. At least 5m. Default: never.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_ROTATE_KEY_EVERY", value_parser = rotation)]
    pub(crate) rotate_key_every: Option<Duration>,
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "full" => Ok(Durability::Full),
        "os" => Ok(Durability::Os),
        _ => Err("expected full or os".into()),
    }
}

/// No more than any store takes as one value, and than is written in one go.
fn rerun_bytes(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    if bytes > 16 << 20 { Err("expected 16MiB or less".into()) } else { Ok(bytes) }
}

/// Long enough for every process to know a new key before it signs.
fn rotation(text: &str) -> Result<Duration, String> {
    let every = duration::parse_positive(text).map_err(|error| error.to_string())?;
    if every < Duration::from_secs(300) {
        return Err("expected 5m or more: a new key has to be known everywhere before it is used".into());
    }
    Ok(every)
}
