//! Questions of a server (elicitation): asked on the terminal, declined where there is none.

use super::{
    form::{self, Person, Said},
    screen::Screen,
    text::clean,
};
use bowline_client::{ElicitReply, Elicitation, ErrorObject, Raw};
use bowline_oauth::{Lines as _, TerminalLines};
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::Arc,
};
use tokio::sync::Mutex;

/// One question at a time has the terminal.
static TERMINAL: Mutex<()> = Mutex::const_new(());

/// Answers a question. One that the server took back (the future is dropped) takes no line of those that follow.
///
/// # Errors
/// None: who cannot be asked declines.
pub(super) async fn answer(screen: Arc<Screen>, asked: Elicitation) -> Result<ElicitReply, ErrorObject> {
    let talks = io::stdin().is_terminal() && io::stderr().is_terminal();
    let Some(lines) = TerminalLines::open().filter(|_| talks) else {
        let message = match &asked {
            Elicitation::Form { message, .. } | Elicitation::Url { message, .. } => message.clone(),
            _ => String::new(),
        };
        screen.line(&format!("declined, as there is no terminal to ask on: {}", clean(&message)));
        return Ok(ElicitReply::Decline);
    };
    screen.clear();
    let _alone = TERMINAL.lock().await;
    Ok(put(&mut Terminal(lines), &asked).await)
}

async fn put(person: &mut impl Person, asked: &Elicitation) -> ElicitReply {
    match asked {
        Elicitation::Form { message, schema } => match form::fill(person, message, schema).await {
            Said::Yes(content) => ElicitReply::Accept(Raw::from_value(&content).ok()),
            Said::No => ElicitReply::Decline,
            Said::Nothing => ElicitReply::Cancel,
        },
        Elicitation::Url { message, url, .. } => {
            person.tell(&format!("The server asks: {}", clean(message)));
            person.tell(&format!("It wants you to open this page:\n\n    {}\n", clean(url)));
            match form::agrees(person, "Open it yourself, and say whether you agree [y/n] ").await {
                Some(true) => ElicitReply::Accept(None),
                Some(false) => ElicitReply::Decline,
                None => ElicitReply::Cancel,
            }
        }
        _ => ElicitReply::Decline,
    }
}

/// Whoever sits at the terminal.
struct Terminal(TerminalLines);

impl Person for Terminal {
    fn tell(&mut self, text: &str) {
        // Whoever closed the terminal will not answer either.
        drop(writeln!(io::stderr(), "{text}"));
    }

    async fn ask(&mut self, prompt: &str) -> Option<String> {
        drop(write!(io::stderr(), "{prompt}"));
        drop(io::stderr().flush());
        self.0.next().await
    }
}
