//! Runs a command under a guard: `guarded COMMAND ARGS...`. Prints its lines; stdin is passed on line by line, and its
//! end stops the command. Kill this program with SIGKILL and the command is ended all the same.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::Duration;

use bowline_gateway::child::{Child, ChildSpec, Guard, GuardCommand, Received, guard_main, launch_main};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    match first.as_deref().and_then(|role| role.to_str()) {
        Some("__guard") => return guard_main(),
        Some("__launch") => return launch_main(args),
        _ => {}
    }
    let Some(program) = first else {
        eprintln!("usage: guarded COMMAND ARGS...");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(ChildSpec::new(program, args))))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guarded: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(spec: ChildSpec) -> Result<(), Box<dyn std::error::Error>> {
    let guard = Guard::start(GuardCommand::current_exe()?)?;
    let (child, mut lines) = Child::spawn(spec, &guard)?;
    println!("guard {} child {}", guard.pid().unwrap_or_default(), child.pid());
    let (typed, mut input) = tokio::sync::mpsc::channel::<String>(16);
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| typed.blocking_send(line))
    });
    loop {
        tokio::select! {
            received = lines.recv() => match received {
                Some(Received::Line(line)) => println!("{}", String::from_utf8_lossy(&line)),
                Some(Received::TooLong(_)) => println!("(a line that was too long)"),
                Some(Received::Exit(exit)) => println!("{exit}"),
                None => return Ok(()),
            },
            line = input.recv() => match line {
                Some(line) => child.send(line.into()).await?,
                None => {
                    child.shutdown(Duration::from_secs(1)).await;
                    return Ok(());
                }
            },
        }
    }
}
