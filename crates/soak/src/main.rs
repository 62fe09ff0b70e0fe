//! Runs the soak, checks what everybody wrote down, and says what it was. Exits with 1 where a promise was broken.

use bowline_soak::{
    check, journal,
    options::{self, Options},
};
use bowline_testkit::Dir;
use std::{path::Path, process::ExitCode};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1), journal::now()) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    // Removed when nothing was wrong.
    let drawn = options.logs.is_none().then(Dir::new);
    let folder = options.logs.as_deref().or_else(|| Some(drawn.as_ref()?.path()));
    let folder = folder.expect("given, or drawn").to_owned();
    let made = std::fs::create_dir_all(&folder);
    let shown = folder.display();
    if options.check {
        eprintln!("soak: reading the journals in {shown}");
    } else {
        let Options { clients, time, seed, .. } = &options;
        eprintln!("soak: {clients} clients, {time:?}, seed {seed}, journals in {shown}");
    }
    let ran = match made {
        Ok(()) if options.check => Ok(()),
        // Stopped by hand, it takes along what it has started.
        Ok(()) => tokio::select! {
            ran = bowline_soak::run::run(&options, &folder) => ran,
            stopped = stopped() => Err(stopped),
        },
        Err(error) => Err(format!("cannot make {}: {error}", folder.display())),
    };
    let mut wrong: Vec<String> = ran.err().into_iter().collect();
    wrong.extend(verdict(&folder, &options));
    if wrong.is_empty() {
        eprintln!("soak: every promise was kept");
        return ExitCode::SUCCESS;
    }
    for what in &wrong {
        eprintln!("soak: WRONG: {what}");
    }
    eprintln!("soak: {} things are wrong; the journals are in {shown}", wrong.len());
    // What happened has to be there to be looked at.
    std::mem::forget(drawn);
    ExitCode::FAILURE
}

/// Waits for SIGINT or SIGTERM.
async fn stopped() -> String {
    let mut term = match signal(SignalKind::terminate()) {
        Ok(term) => term,
        Err(error) => return format!("cannot listen to signals: {error}"),
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = term.recv() => {}
    }
    "stopped before the time was over".into()
}

/// Prints the figures, and returns what is wrong.
fn verdict(folder: &Path, options: &Options) -> Vec<String> {
    match journal::read(folder) {
        Ok(lines) => {
            eprint!("{}", check::figures(&lines));
            check::check(&lines, &options.tempo())
        }
        Err(error) => vec![format!("the journals cannot be read: {error}")],
    }
}
