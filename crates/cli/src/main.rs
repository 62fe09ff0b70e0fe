//! The program `bowline`.

use bowline_gateway::child::{guard_main, launch_main};
use std::process::ExitCode;

fn main() -> ExitCode {
    // The hidden roles come first: they are this program in other processes, without runtime, log or options.
    let mut args = std::env::args_os();
    let _program = args.next();
    match args.next().as_deref().and_then(|role| role.to_str()) {
        Some("__guard") => guard_main(),
        Some("__launch") => launch_main(args),
        Some("__init") => bowline_cli::lead_main(args),
        Some("__demo_counter") => bowline_cli::demo::counter_main(args),
        _ => bowline_cli::main(std::env::args_os()),
    }
}
