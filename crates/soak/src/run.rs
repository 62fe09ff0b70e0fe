//! Starts everything, keeps it going, and ends it.

use crate::{
    chance::Chance,
    journal::{Event, Journal, Phase, now},
    network::Network,
    options::{Options, Tempo},
    raw,
    real::{Process, Sdk},
    watch::Watch,
};
use bowline_testkit::{Program, Serve, processes};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// How many names the raw clients have.
const PRINCIPALS: usize = 4;

/// One in so many clients has a process of the SDKs; the rest are raw.
const REAL_SHARE: usize = 3;

/// The token of a name.
fn token(name: &str) -> String {
    format!("soak-token-of-{name}-0123456789")
}

/// The clients of a run.
struct Clients {
    raw: Vec<raw::Identity>,
    real: Vec<Process>,
    networks: Vec<Network>,
}

/// Runs it all and leaves the journals in `folder`.
///
/// # Errors
/// What could not be started, or did not end.
pub async fn run(options: &Options, folder: &Path) -> Result<(), String> {
    let tempo = options.tempo();
    let journal = journal(folder, "driver")?;
    let ledger = folder.join("ledger.jsonl");
    let mut chance = Chance::new(options.seed);
    let mut program = serve(options, &tempo, &ledger).await?;
    let watch = Watch { pid: program.pid(), address: program.address(), token: token("watch") };
    note_sample(&watch, &journal, Phase::Warm).await;

    let until = now() + u64::try_from(options.time.as_millis()).unwrap_or(u64::MAX);
    let clients = clients(options, &tempo, &program, folder, &journal, &mut chance, until).await?;
    let common = Arc::new(raw::Common {
        tempo,
        journal: self::journal(folder, "raw")?,
        until,
        found: parking_lot::Mutex::default(),
    });
    let mut working = JoinSet::new();
    for identity in clients.raw {
        let (common, chance) = (common.clone(), chance.fork());
        working.spawn(async move {
            raw::work(common, identity, chance).await;
            Ok(())
        });
    }
    for process in clients.real {
        working.spawn(process.work_in_time(journal.clone(), chance.fork()));
    }
    let sampling = tokio::spawn(sample(watch.clone(), journal.clone(), tempo.samples));
    let killing =
        tokio::spawn(kill_children(watch.clone(), journal.clone(), chance.fork(), tempo.child_kills, until));
    let mut wrong = Vec::new();
    while let Some(done) = working.join_next().await {
        match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => wrong.push(error),
            Err(panic) => {
                journal.note(Event::Odd { what: format!("a client could not read what came: {panic}") });
            }
        }
    }
    sampling.abort();
    killing.abort();
    drop(clients.networks);
    settle(&watch, &journal, &tempo).await;
    end(&mut program, &journal).await;
    std::fs::write(folder.join("bowline.log"), program.said())
        .map_err(|error| format!("cannot keep the log of the program: {error}"))?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn journal(folder: &Path, name: &str) -> Result<Journal, String> {
    let path = folder.join(format!("{name}.jsonl"));
    Journal::open(&path).map_err(|error| format!("cannot open {}: {error}", path.display()))
}

/// Starts the program in front of the tool.
async fn serve(options: &Options, tempo: &Tempo, ledger: &Path) -> Result<Program, String> {
    let beside = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let beside = beside.parent().map(PathBuf::from).unwrap_or_default();
    let tool = beside.join("bowline-soak-tool");
    let bowline = options.bowline.clone().or_else(|| std::env::var_os("BOWLINE_BIN").map(Into::into));
    let bowline = bowline.unwrap_or_else(|| beside.join("bowline"));
    for program in [&tool, &bowline] {
        if !program.is_file() {
            return Err(format!(
                "{} is missing: build the workspace, or run `cargo xtask soak`",
                program.display()
            ));
        }
    }
    let names = (0..PRINCIPALS).map(|number| format!("raw-{number}"));
    let names = names.chain(Sdk::ALL.map(|sdk| sdk.group().to_owned())).chain(["watch".to_owned()]);
    let tokens: Vec<_> = names.map(|name| format!("{name}={}", token(&name))).collect();
    let serve = Serve::command(&bowline.to_string_lossy(), [tool.into_os_string(), ledger.into()]);
    Ok(serve.with(tempo.serve).env("BOWLINE_AUTH_TOKENS", tokens.join(",")).start().await)
}

/// Who there is, each with a network of its own.
async fn clients(
    options: &Options,
    tempo: &Tempo,
    program: &Program,
    folder: &Path,
    journal: &Journal,
    chance: &mut Chance,
    until: u64,
) -> Result<Clients, String> {
    let mut networks = Vec::new();
    let mut open = async |name: &str, weather, chance: Chance| {
        let network = Network::open(name, program.address(), weather, chance, journal.clone()).await;
        let network = network.map_err(|error| format!("no network for {name}: {error}"))?;
        let address = network.address;
        networks.push(network);
        Ok::<_, String>(address)
    };
    let real_clients = if options.raw_only { 0 } else { options.clients / REAL_SHARE };
    let mut real: Vec<Process> = Vec::new();
    for number in 0..real_clients {
        // One process for each SDK, more where that would be crowded.
        let sdk = Sdk::ALL[number % Sdk::ALL.len()];
        let place = number / Sdk::ALL.len();
        let name = format!("{}-{}", sdk.group(), place / 12);
        let client = format!("{name}.{}", place % 12);
        let address = open(&client, tempo.fair, chance.fork()).await?;
        let client = (client, format!("http://{address}/mcp"));
        match real.iter_mut().find(|process| process.name == name) {
            Some(process) => process.clients.push(client),
            None => real.push(Process {
                sdk,
                name,
                clients: vec![client],
                token: token(sdk.group()),
                folder: folder.to_owned(),
                tempo: *tempo,
                until,
            }),
        }
    }
    let mut raw = Vec::new();
    for number in 0..options.clients - real_clients {
        let principal = format!("raw-{}", number % PRINCIPALS);
        let name = format!("{principal}.{}", number / PRINCIPALS);
        let address = open(&name, tempo.rough, chance.fork()).await?;
        raw.push(raw::Identity { name, address, token: token(&principal), principal });
    }
    Ok(Clients { raw, real, networks })
}

async fn note_sample(watch: &Watch, journal: &Journal, phase: Phase) {
    if let Some(sample) = watch.sample(phase).await {
        journal.note(Event::Sample(sample));
    }
}

async fn sample(watch: Watch, journal: Journal, every: u64) {
    loop {
        sleep(Duration::from_millis(every)).await;
        note_sample(&watch, &journal, Phase::Load).await;
    }
}

/// SIGKILL to a process of the tool now and then.
async fn kill_children(watch: Watch, journal: Journal, mut chance: Chance, every: u64, until: u64) {
    while now() < until {
        sleep(chance.ms(every / 2, every * 3 / 2)).await;
        let children = watch.children();
        if children.is_empty() {
            continue;
        }
        let pid = children[usize::try_from(chance.below(children.len() as u64)).expect("an index")];
        // Before, so that whatever follows from it comes later.
        journal.note(Event::ChildKilled { pid });
        processes::kill(pid);
    }
}

/// Waits until every session has ended and says what is there then; at most as long as the slowest of them may take.
async fn settle(watch: &Watch, journal: &Journal, tempo: &Tempo) {
    // A call that nobody reads any more runs on until it is abandoned, at most 60 s, and its session lives on after that.
    let limit = Instant::now() + Duration::from_millis(tempo.longest_call + tempo.session_ttl + 30_000);
    loop {
        let sample = watch.sample(Phase::End).await;
        let empty = sample.as_ref().is_some_and(|sample| {
            sample.children == 0
                && ["sessions", "calls", "children"].iter().all(|name| sample.metrics.get(*name) == Some(&0))
        });
        if empty || Instant::now() > limit {
            if let Some(sample) = sample {
                journal.note(Event::Sample(sample));
            }
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Ends the program, and says what is left 10 s later.
async fn end(program: &mut Program, journal: &Journal) {
    program.terminate();
    let ended = timeout(Duration::from_secs(38), program.wait()).await;
    let exit = ended.ok().and_then(|status| status.code());
    let limit = Instant::now() + Duration::from_secs(10);
    let left = || -> Vec<String> {
        let left = program.processes().into_iter().filter(|process| !process.is_zombie());
        left.map(|process| format!("{} {}", process.pid, process.command)).collect()
    };
    while !left().is_empty() && Instant::now() < limit {
        sleep(Duration::from_millis(100)).await;
    }
    journal.note(Event::Left { processes: left(), exit });
}
