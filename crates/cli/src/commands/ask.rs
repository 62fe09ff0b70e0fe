//! Questions of a server (elicitation): asked on the terminal, declined where there is none.

use super::{
    form::{self, Person, Said},
    screen::Screen,
    text::clean,
};
use bowline_client::{ElicitReply, Elicitation, ErrorObject, Raw};
use parking_lot::Mutex;
use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    sync::Arc,
};
use tokio::sync::oneshot;

/// Bytes of a typed line that are read.
const MAX_LINE: u64 = 64 * 1024;

/// One question at a time has the terminal.
static TERMINAL: Mutex<()> = Mutex::new(());

/// Answers a question.
///
/// # Errors
/// When no thread can be had for it.
pub(super) async fn answer(screen: Arc<Screen>, asked: Elicitation) -> Result<ElicitReply, ErrorObject> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let message = match &asked {
            Elicitation::Form { message, .. } | Elicitation::Url { message, .. } => message.clone(),
            _ => String::new(),
        };
        screen.line(&format!("declined, as there is no terminal to ask on: {}", clean(&message)));
        return Ok(ElicitReply::Decline);
    }
    screen.clear();
    let (done, said) = oneshot::channel();
    // A thread of its own, not one of the runtime: a read from a terminal cannot be stopped, and must not hold up the end.
    let thread = std::thread::Builder::new().name("question".into()).spawn(move || {
        let _alone = TERMINAL.lock();
        // Nobody waits any more where the server took the question back.
        drop(done.send(put(&mut Terminal, &asked)));
    });
    let failed = || ErrorObject::internal("local", "the question could not be asked");
    thread.map_err(|_| failed())?;
    said.await.map_err(|_| failed())
}

fn put(person: &mut dyn Person, asked: &Elicitation) -> ElicitReply {
    match asked {
        Elicitation::Form { message, schema } => match form::fill(person, message, schema) {
            Said::Yes(content) => ElicitReply::Accept(Raw::from_value(&content).ok()),
            Said::No => ElicitReply::Decline,
            Said::Nothing => ElicitReply::Cancel,
        },
        Elicitation::Url { message, url, .. } => {
            person.tell(&format!("The server asks: {}", clean(message)));
            person.tell(&format!("It wants you to open this page:\n\n    {}\n", clean(url)));
            match form::agrees(person, "Open it yourself, and say whether you agree [y/n] ") {
                Some(true) => ElicitReply::Accept(None),
                Some(false) => ElicitReply::Decline,
                None => ElicitReply::Cancel,
            }
        }
        _ => ElicitReply::Decline,
    }
}

/// Whoever sits at the terminal.
struct Terminal;

impl Person for Terminal {
    fn tell(&mut self, text: &str) {
        // Whoever closed the terminal will not answer either.
        drop(writeln!(io::stderr(), "{text}"));
    }

    fn ask(&mut self, prompt: &str) -> Option<String> {
        use io::Read as _;
        drop(write!(io::stderr(), "{prompt}"));
        drop(io::stderr().flush());
        let mut line = String::new();
        let read = io::stdin().lock().take(MAX_LINE).read_line(&mut line);
        read.is_ok_and(|bytes| bytes > 0).then_some(line)
    }
}
