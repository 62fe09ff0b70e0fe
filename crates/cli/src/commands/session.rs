//! The connection that a command works with.

use super::{
    ask,
    failure::{Failure, is_unknown_method},
    options::Common,
    output::Output,
    screen::Screen,
    words::Place,
};
use crate::client::{self, Far, Paste};
use bowline_client::{CallOptions, Client, ConnectError, Handlers, Notification, Target};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Messages that wait to be printed by `watch`; further ones are counted and lost.
const QUEUE: usize = 1024;

/// A server, a screen, and how results are printed.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) screen: Arc<Screen>,
    pub(super) output: Output,
    /// What the server says of its own accord, for `watch`.
    pub(super) notes: Option<mpsc::Receiver<Notification>>,
    level: Option<String>,
}

impl Session {
    /// Connects.
    pub(super) async fn open(place: Place, common: &Common, watches: bool) -> Result<Self, Failure> {
        let screen = Arc::new(Screen::new());
        let Far { target, mut options, asking } = match place {
            Place::Url(url) => client::far(&url, &common.remote, None, Paste::Allowed, &client::variable)?,
            Place::Command(command) => {
                let mut words = command.into_iter();
                let program = words.next().unwrap_or_default();
                let mut far = Far::new(Target::stdio(program, words));
                far.options.era = client::era(&common.remote);
                far
            }
        };
        options.connect_timeout = common.connect_timeout;
        options.connect_outage = common.outage;
        options.outage = common.outage;
        options.timeout = limit(common.timeout);
        options.idle_timeout = limit(common.idle_timeout);
        options.standalone = watches;
        let mut handlers = handlers(&screen);
        let mut notes = None;
        if watches {
            let (sender, receiver) = mpsc::channel(QUEUE);
            notes = Some(receiver);
            handlers = handlers.on_notification(move |note| {
                if sender.try_send(note.clone()).is_err() {
                    tracing::warn!(method = %note.method, "printed too slowly: a message is lost");
                }
            });
        } else {
            let log = Arc::clone(&screen);
            handlers = handlers.on_log(move |message| log.log(&message));
        }
        options.handler = Arc::new(handlers);
        let client = loop {
            match Client::connect(target.clone(), options.clone()).await {
                // A person takes longer than a server; their own limit ends it.
                Err(ConnectError::Timeout { .. }) if asking.now() => {}
                connected => break connected?,
            }
        };
        let session = Self { client, screen, output: common.output, notes, level: common.level.clone() };
        session.set_level().await?;
        Ok(session)
    }

    async fn set_level(&self) -> Result<(), Failure> {
        let Some(level) = &self.level else { return Ok(()) };
        match self.client.set_level(level).await {
            Err(error) if is_unknown_method(&error) => {
                self.screen.line("the server has no log");
                Ok(())
            }
            outcome => outcome.map_err(|error| Failure::reading(&error)),
        }
    }

    /// The options of a call that is shown while it runs.
    pub(super) fn shown(&self) -> CallOptions {
        let screen = Arc::clone(&self.screen);
        CallOptions::new().on_progress(move |progress| screen.progress(&progress))
    }

    /// Ends it, within the client's own limit.
    pub(super) async fn close(&self) {
        self.screen.clear();
        self.client.close().await;
    }
}

fn handlers(screen: &Arc<Screen>) -> Handlers {
    let asked = Arc::clone(screen);
    Handlers::new()
        .elicitation(move |elicitation| ask::answer(Arc::clone(&asked), elicitation))
        .elicitation_urls()
}

/// Zero: none.
fn limit(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}
