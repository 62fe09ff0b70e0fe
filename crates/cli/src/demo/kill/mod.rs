//! `bowline demo --kill`: two backends of one store, and what a client sees when a connection is cut, a backend is killed, and the other
//! one is told to leave.
//!
//! The backends are `bowline serve` in processes of their own, on one SQLite file; in front of them stands the relay of the demo, which
//! gives each connection to one of them. Two calls of one session run, one on each. The verdict is computed from what the client saw,
//! and from the ledger that the tool itself wrote.

mod backend;
mod counter;
mod verdict;
mod view;

use super::{
    DemoError, NUMBERS, Pace, QUEUE,
    client::Client,
    happening::{Happening, Recorder, What},
    relay::Relay,
};
use backend::{Backend, Folder};
use std::{ffi::OsString, io::Write, process::ExitCode, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};
use verdict::Story;
use view::View;

/// The numbers of the second call after whose arrival the wire is cut, the first backend is killed, and the second one is told to leave.
const CUT_AFTER: u64 = NUMBERS / 4;
const KILL_AFTER: u64 = NUMBERS * 2 / 5;
const LEAVE_AFTER: u64 = NUMBERS * 7 / 10;

/// How far the last call counts.
const LAST_NUMBERS: u64 = 3;

/// What all of it may take beside the counting.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server behind the backends, which `bowline serve` starts: this program again.
#[doc(hidden)]
pub fn counter_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    counter::main(args)
}

/// Something that the demo learns of.
enum News {
    /// A call, from 1 on, or 0 for the wire.
    Seen(u64, Happening),
    /// All of a call was seen.
    Over(u64),
    /// The backend that takes the place of the killed one serves.
    Up(Result<Backend, DemoError>),
    /// The backend that was told to leave has ended.
    Left(Option<i32>),
}

/// What the demo does to backends, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Started(char, u32),
    Killed(char),
    Replaced(char, u32),
    ToldToLeave(char),
    Left(char, Option<i32>),
}

pub(super) async fn run_to(pace: Pace, json: bool, out: &mut (dyn Write + Send)) -> Result<(), DemoError> {
    let program = std::env::current_exe().map_err(|error| DemoError::Backend(error.to_string()))?;
    let folder =
        Folder::new().map_err(|error| DemoError::Backend(format!("no folder for its store: {error}")))?;
    let folder = Arc::new(folder);
    let mut view = View::new(out, json, pace);
    view.begin().map_err(DemoError::Output)?;
    let (clock, wire_seen) = Recorder::new(QUEUE);
    let (a, b) =
        tokio::join!(Backend::start(&program, &folder, pace), Backend::start(&program, &folder, pace));
    let (mut a, mut b) = (a?, Some(b?));
    let mut story = Story::default();
    for (name, pid) in [('A', a.pid()), ('B', b.as_ref().map_or(0, Backend::pid))] {
        view.deed(clock.now_ms(), Deed::Started(name, pid)).map_err(DemoError::Output)?;
    }

    // Everything that runs for the demo ends with it.
    let mut tasks = JoinSet::new();
    let (news, mut told) = mpsc::channel(QUEUE);
    let relay = Relay::start(vec![a.address], clock.clone(), &mut tasks).await.map_err(DemoError::Listen)?;
    pass_on(0, wire_seen, &news, &mut tasks);
    let (first_clock, first_seen) = clock.beside(QUEUE);
    pass_on(1, first_seen, &news, &mut tasks);
    let mut first =
        Client::open(relay.address(), pace.retry, first_clock).await.map_err(DemoError::Session)?;
    let (second_clock, second_seen) = clock.beside(QUEUE);
    let mut second = Some((first.beside(2, second_clock), second_seen));
    let (third_clock, third_seen) = clock.beside(QUEUE);
    let mut third = Some((first.beside(3, third_clock), third_seen));
    tasks.spawn(async move { first.count_to(NUMBERS).await });

    let (b_address, mut c) = (b.as_ref().map(|b| b.address), None);
    let mut over = [false; 4];
    let limit = tokio::time::sleep(pace.tick * 60 + PATIENCE);
    let mut limit = std::pin::pin!(limit);
    while !over[3] {
        let news_now = tokio::select! {
            // What is missing when the time is up is for the verdict to say.
            () = &mut limit => break,
            Some(news) = told.recv() => news,
        };
        match news_now {
            News::Seen(call, happening) => {
                view.seen(call, &happening).map_err(DemoError::Output)?;
                story.note(call, &happening);
                match (call, &happening.what) {
                    (1, What::StreamOpened { .. }) => {
                        // The other call runs on the other backend.
                        relay.lead_to(b_address.into_iter().collect());
                        if let Some((mut client, seen)) = second.take() {
                            pass_on(2, seen, &news, &mut tasks);
                            tasks.spawn(async move { client.count_to(NUMBERS).await });
                        }
                    }
                    (2, What::Received(CUT_AFTER)) => relay.cut_the_next_message(),
                    (2, What::Received(KILL_AFTER)) => {
                        a.kill().await;
                        let now = clock.now_ms();
                        story.killed_at = Some(now);
                        view.deed(now, Deed::Killed('A')).map_err(DemoError::Output)?;
                        let (program, folder, news) = (program.clone(), folder.clone(), news.clone());
                        tasks.spawn(async move {
                            // Nobody is told once the demo is over.
                            drop(news.send(News::Up(Backend::start(&program, &folder, pace).await)).await);
                        });
                    }
                    _ => {}
                }
            }
            News::Over(call) => over[usize::try_from(call).expect("there are three")] = true,
            News::Up(backend) => {
                let backend = backend?;
                view.deed(clock.now_ms(), Deed::Replaced('C', backend.pid())).map_err(DemoError::Output)?;
                c = Some(backend);
            }
            News::Left(code) => {
                story.left = Some(code);
                view.deed(clock.now_ms(), Deed::Left('B', code)).map_err(DemoError::Output)?;
            }
        }
        if let Some(c) = &c
            && story.second().received.len() as u64 >= LEAVE_AFTER
            && let Some(mut leaving) = b.take()
        {
            relay.lead_to(vec![c.address]);
            leaving.terminate();
            view.deed(clock.now_ms(), Deed::ToldToLeave('B')).map_err(DemoError::Output)?;
            let news = news.clone();
            tasks.spawn(async move {
                let code = leaving.ended().await.ok().and_then(|status| status.code());
                drop(news.send(News::Left(code)).await);
            });
        }
        if over[1]
            && over[2]
            && story.left.is_some()
            && let Some((mut client, seen)) = third.take()
        {
            // Neither of the processes that knew the session is there any more.
            pass_on(3, seen, &news, &mut tasks);
            tasks.spawn(async move { client.count_to(LAST_NUMBERS).await });
        }
    }
    story.runs = [1, 2, 3].map(|call| counter::runs(&folder.ledger(), call));
    let problems = story.problems(pace);
    view.end(&story, &problems).map_err(DemoError::Output)?;
    if problems.is_empty() { Ok(()) } else { Err(DemoError::Verdict(problems.join("; "))) }
}

/// Tells what a call sees, and then that this was all.
fn pass_on(
    call: u64,
    mut seen: mpsc::Receiver<Happening>,
    news: &mpsc::Sender<News>,
    tasks: &mut JoinSet<()>,
) {
    let news = news.clone();
    tasks.spawn(async move {
        while let Some(happening) = seen.recv().await {
            if news.send(News::Seen(call, happening)).await.is_err() {
                return;
            }
        }
        drop(news.send(News::Over(call)).await);
    });
}
