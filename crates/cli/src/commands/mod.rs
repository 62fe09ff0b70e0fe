//! `bowline list`, `call`, `read`, `prompt`, `complete` and `watch`: one server, one thing to do.

mod arguments;
mod ask;
mod call;
mod complete;
mod content;
mod failure;
mod form;
mod list;
mod options;
mod output;
mod prompt;
mod read;
mod save;
mod screen;
mod session;
mod text;
mod watch;
mod words;

pub(crate) use options::{
    CallCommand, Common, CompleteCommand, ListCommand, PromptCommand, ReadCommand, WatchCommand,
};

use crate::{
    client,
    logging::{self, LogFormat},
    serve::signals::Signals,
};
use bowline_gateway::stderr;
use failure::Failure;
use session::Session;
use std::{process::ExitCode, time::Duration};
use words::{Place, Words};

/// How long the last lines of the log have to reach stderr.
const LAST_LINES: Duration = Duration::from_millis(500);

/// What is to be done, with its own options.
#[derive(Debug)]
pub(crate) enum Job {
    List(ListCommand),
    Call(CallCommand),
    Read(ReadCommand),
    Prompt(PromptCommand),
    Complete(CompleteCommand),
    Watch(WatchCommand),
}

impl Job {
    fn common(&self) -> &Common {
        match self {
            Self::List(command) => &command.common,
            Self::Call(command) => &command.common,
            Self::Read(command) => &command.common,
            Self::Prompt(command) => &command.common,
            Self::Complete(command) => &command.common,
            Self::Watch(command) => &command.common,
        }
    }

    fn words(&self) -> &[String] {
        match self {
            Self::List(command) => &command.words,
            Self::Call(command) => &command.words,
            Self::Read(command) => &command.words,
            Self::Prompt(command) => &command.words,
            Self::Complete(command) => &command.words,
            Self::Watch(command) => &command.words,
        }
    }
}

/// A job whose words make sense.
enum Task {
    List(list::Kinds),
    Call(call::Call),
    Read(read::Read),
    Prompt(prompt::Prompt),
    Complete(complete::Complete),
    Watch(watch::Watch),
}

impl Task {
    fn new(job: &Job, words: Words) -> Result<Self, Failure> {
        Ok(match job {
            Job::List(_) => Self::List(list::Kinds::new(words)?),
            Job::Call(command) => Self::Call(call::Call::new(command, words)?),
            Job::Read(command) => Self::Read(read::Read::new(command, words)?),
            Job::Prompt(command) => Self::Prompt(prompt::Prompt::new(command, words)?),
            Job::Complete(_) => Self::Complete(complete::Complete::new(words)?),
            Job::Watch(command) => Self::Watch(watch::Watch::new(command, words)),
        })
    }

    async fn run(self, session: &mut Session) -> Result<u8, Failure> {
        match self {
            Self::List(kinds) => kinds.run(session).await,
            Self::Call(call) => call.run(session).await,
            Self::Read(read) => read.run(session).await,
            Self::Prompt(prompt) => prompt.run(session).await,
            Self::Complete(complete) => complete.run(session).await,
            Self::Watch(watch) => watch.run(session).await,
        }
    }
}

/// Does it; see the exit codes in the help.
pub(crate) fn main(job: &Job) -> ExitCode {
    client::install_crypto();
    let common = job.common();
    logging::start(&logging::filter(&common.log_level, common.verbose), LogFormat::Text);
    let outcome = prepare(job).and_then(|(task, place)| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::here(format!("the runtime could not be started: {error}")))?;
        let outcome = runtime.block_on(run(task, place, common));
        // A read of stdin that is under way ends with the process.
        runtime.shutdown_background();
        outcome
    });
    let code = match outcome {
        Ok(code) => code,
        Err(failure) => {
            failure.report(common.output);
            failure.exit_code()
        }
    };
    stderr::flush(LAST_LINES);
    ExitCode::from(code)
}

fn prepare(job: &Job) -> Result<(Task, Place), Failure> {
    let (place, words) = Words::split(job.words(), &job.common().command)?;
    Ok((Task::new(job, words)?, place))
}

async fn run(task: Task, place: Place, common: &Common) -> Result<u8, Failure> {
    let mut signals =
        Signals::new(None).map_err(|error| Failure::here(format!("signals cannot be received: {error}")))?;
    let opening = Session::open(place, common, matches!(task, Task::Watch(_)));
    let mut session = tokio::select! {
        session = Box::pin(opening) => session?,
        leave = signals.next() => return Ok(leave.code()),
    };
    let watches = matches!(task, Task::Watch(_));
    let outcome = tokio::select! {
        outcome = Box::pin(task.run(&mut session)) => outcome,
        // The call is dropped, which takes it back.
        leave = signals.next() => Ok(if watches { 0 } else { leave.code() }),
    };
    session.close().await;
    outcome
}
