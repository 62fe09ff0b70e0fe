//! `subscriptions/listen` with types (`2026-07-28` on): what is listened for, what was heard, and how it is kept open.
//!
//! Nothing is replayed on such a stream, so that every opening but the first, and every message for which there was no room, is made up
//! for by a refresh: everything that the server agreed to tell of is told to have changed (SEMANTICS 7).

use crate::{CallError, Client, List, core::Core};
use bowline_proto::jsonrpc::{Notification, Raw};
use parking_lot::Mutex;
use serde_json::json;
use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::Arc,
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
};

/// Changes that wait to be taken; further ones are made up for by a refresh.
const QUEUE: usize = 256;

/// What to be told of. Empty at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenFilter {
    lists: [bool; 3],
    resources: BTreeSet<String>,
}

impl ListenFilter {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every list.
    #[must_use]
    pub fn lists() -> Self {
        Self { lists: [true; 3], ..Self::default() }
    }

    /// The same, and that this list changes.
    #[must_use]
    pub fn list(mut self, list: List) -> Self {
        self.lists[place(list)] = true;
        self
    }

    /// The same, and that the resource of this URI changes.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.resources.insert(uri.into());
        self
    }

    /// Whether that list is in it.
    #[must_use]
    pub const fn has_list(&self, list: List) -> bool {
        self.lists[place(list)]
    }

    /// The URIs of the resources in it.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(String::as_str)
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As it stands in the parameters of `subscriptions/listen`.
    pub(crate) fn to_raw(&self) -> Raw {
        let mut filter = serde_json::Map::new();
        for list in List::ALL.into_iter().filter(|list| self.has_list(*list)) {
            filter.insert(member(list), true.into());
        }
        if !self.resources.is_empty() {
            filter.insert("resourceSubscriptions".into(), json!(self.resources));
        }
        Raw::from_trusted(serde_json::Value::Object(filter).to_string().into())
    }

    /// As a server says what it agrees to. What it does not name it does not tell of.
    fn of(raw: &Raw) -> Self {
        let mut filter = Self::default();
        for list in List::ALL {
            filter.lists[place(list)] = raw.member(&member(list)).is_some_and(|said| said.as_str() == "true");
        }
        let resources = raw.member("resourceSubscriptions").and_then(|uris| uris.to().ok());
        filter.resources = resources.unwrap_or_default();
        filter
    }

    /// Everything in it has changed, or may have.
    fn refresh(&self) -> impl Iterator<Item = Change> {
        let lists = List::ALL.into_iter().filter(|list| self.has_list(*list)).map(Change::List);
        lists.chain(self.resources.iter().cloned().map(Change::Resource))
    }
}

const fn place(list: List) -> usize {
    match list {
        List::Tools => 0,
        List::Prompts => 1,
        List::Resources => 2,
    }
}

fn member(list: List) -> String {
    format!("{}ListChanged", list.capability())
}

/// What was heard.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// The list changed, or may have: nobody listened for a moment. The client's cache has forgotten it already.
    List(List),
    /// The resource of this URI changed, or may have.
    Resource(String),
    /// Something else that the server tells of here, of an extension say, as it came.
    Other(Notification),
}

impl Change {
    fn of(note: &Notification) -> Self {
        let list = List::ALL.into_iter().find(|list| list.notification() == &*note.method);
        let uri = || note.params.as_ref()?.member("uri")?.string();
        match list {
            Some(list) => Self::List(list),
            None if &*note.method == "notifications/resources/updated" => {
                uri().map_or_else(|| Self::Other(note.clone()), Self::Resource)
            }
            None => Self::Other(note.clone()),
        }
    }
}

/// A `subscriptions/listen` that is kept open. Dropping it ends it on the server too.
///
/// When the connection breaks, or the server says goodbye, it is opened anew, with a growing wait while that fails, and what may have
/// been missed is made up for: [`next`](Self::next) then says that everything has changed that the server agreed to tell of.
pub struct Listening {
    route: Arc<Route>,
    heard: mpsc::Receiver<Change>,
    /// The rest of a refresh.
    rest: VecDeque<Change>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Client {
    /// Listens for changes (`subscriptions/listen`, `2026-07-28` on), and returns when the server has said what it will tell of. It may
    /// be less than what was asked for: [`Listening::accepted`].
    ///
    /// It is a stream of its own, beside the one that the client keeps for its [`Handler`](crate::Handler)
    /// ([`standalone`](crate::ClientOptions::standalone)); what comes here is not heard there.
    ///
    /// ```no_run
    /// # use bowline_client::{CallError, Change, Client, List, ListenFilter};
    /// # async fn example(client: Client) -> Result<(), CallError> {
    /// let filter = ListenFilter::new().list(List::Tools).resource("file:///notes.txt");
    /// let mut listening = client.listen(filter).await?;
    /// while let Some(change) = listening.next().await? {
    ///     match change {
    ///         Change::List(List::Tools) => println!("{} tools", client.list_tools().await?.len()),
    ///         Change::Resource(uri) => println!("{uri} changed"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Invalid`] where nothing is asked for, or where the server speaks a revision that has no such request: there,
    /// [`subscribe`](Client::subscribe) and the handler's notifications are what listening is. Else every way in which a call has no
    /// result; an unreachable server is not asked again.
    pub async fn listen(&self, filter: ListenFilter) -> Result<Listening, CallError> {
        if filter.is_empty() {
            return Err(CallError::invalid("there is nothing to listen for: name a list or a resource"));
        }
        let core = &self.core;
        if core.is_closed() {
            return Err(CallError::Closed);
        }
        let (sender, heard) = mpsc::channel(QUEUE);
        let (opened, first) = oneshot::channel();
        let (stop, stopped) = watch::channel(false);
        let route = Arc::new(Route {
            filter,
            sender: Mutex::new(Some(sender)),
            state: Mutex::new(State { opened: Some(opened), ..State::default() }),
            behind: Notify::new(),
        });
        let task = tokio::spawn(keep(Arc::clone(core), Arc::clone(&route), stopped));
        let listening = Listening { route, heard, rest: VecDeque::new(), stop, task: Some(task) };
        match first.await {
            Ok(Ok(())) => Ok(listening),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(CallError::Closed),
        }
    }
}

impl Listening {
    /// What the server agreed to tell of when it was asked the last time.
    #[must_use]
    pub fn accepted(&self) -> ListenFilter {
        self.route.state.lock().accepted.clone()
    }

    /// The next change; `None` when the client was closed. Cancel safe.
    ///
    /// # Errors
    /// Once, when the server refuses to be listened to from now on; then `None`.
    pub async fn next(&mut self) -> Result<Option<Change>, CallError> {
        loop {
            if let Some(change) = self.rest.pop_front() {
                return Ok(Some(change));
            }
            let behind = self.route.behind.notified();
            if self.route.take_behind() {
                // What waits is in the refresh, but for what only its author knows.
                while let Ok(change) = self.heard.try_recv() {
                    if matches!(change, Change::Other(_)) {
                        self.rest.push_back(change);
                    }
                }
                self.rest.extend(self.accepted().refresh());
                continue;
            }
            tokio::select! {
                biased;
                change = self.heard.recv() => match change {
                    Some(change) => return Ok(Some(change)),
                    None => return self.route.take_end().map_or(Ok(None), Err),
                },
                () = behind => {}
            }
        }
    }

    /// Ends it, and waits until the server was told, within [`close_timeout`](crate::ClientOptions::close_timeout).
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // It is told, and bounds itself.
            drop(task.await);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("filter", &self.route.filter).finish_non_exhaustive()
    }
}

/// From the stream to whoever listens.
pub(crate) struct Route {
    pub(crate) filter: ListenFilter,
    /// Gone when it is over.
    sender: Mutex<Option<mpsc::Sender<Change>>>,
    state: Mutex<State>,
    /// Something has to be made up for.
    behind: Notify,
}

#[derive(Default)]
struct State {
    /// Who waits for the first acknowledgement.
    opened: Option<oneshot::Sender<Result<(), CallError>>>,
    accepted: ListenFilter,
    behind: bool,
    end: Option<CallError>,
}

impl Route {
    /// Takes a notification of the stream. Never waits.
    pub(crate) fn hear(&self, core: &Core, note: &Notification) {
        if &*note.method == "notifications/subscriptions/acknowledged" {
            let said = note.params.as_ref().and_then(|params| params.member("notifications"));
            self.acknowledged(core, said.map(|said| ListenFilter::of(&said)).unwrap_or_default());
            return;
        }
        core.cache.lock().on_notification(&note.method, note.params.as_ref());
        let full = self.sender.lock().as_ref().is_some_and(|sender| {
            matches!(sender.try_send(Change::of(note)), Err(mpsc::error::TrySendError::Full(_)))
        });
        if full {
            self.fall_behind();
        }
    }

    fn acknowledged(&self, core: &Core, accepted: ListenFilter) {
        let opened = {
            let mut state = self.state.lock();
            state.accepted = accepted;
            state.opened.take()
        };
        match opened {
            Some(opened) => drop(opened.send(Ok(()))),
            // Nobody listened for a while.
            None => {
                core.cache.lock().clear();
                self.fall_behind();
            }
        }
    }

    fn fall_behind(&self) {
        self.state.lock().behind = true;
        self.behind.notify_one();
    }

    fn take_behind(&self) -> bool {
        std::mem::take(&mut self.state.lock().behind)
    }

    fn take_end(&self) -> Option<CallError> {
        self.state.lock().end.take()
    }

    /// Whether the server has agreed to anything yet.
    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().opened.is_none()
    }

    /// It is over: with an error, or because the client was closed.
    fn end(&self, error: Option<CallError>) {
        let opened = {
            let mut state = self.state.lock();
            let opened = state.opened.take();
            if opened.is_none() {
                state.end.clone_from(&error);
            }
            opened
        };
        if let Some(opened) = opened {
            drop(opened.send(Err(error.unwrap_or(CallError::Closed))));
        }
        self.sender.lock().take();
    }
}

/// Keeps it open until it is stopped, or refused.
async fn keep(core: Arc<Core>, route: Arc<Route>, mut stopped: watch::Receiver<bool>) {
    let end = tokio::select! {
        // Its own end comes first: a pipe has to be told.
        end = core.keep_open(&route, &mut stopped) => end,
        () = core.closing() => None,
    };
    route.end(end);
}

/// Waits for the wish to end.
pub(crate) async fn stopping(stopped: &mut watch::Receiver<bool>) {
    // A sender that is gone wishes it too.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// What a server of an older revision is asked for in vain.
pub(crate) fn no_listening(revision: &str) -> CallError {
    CallError::invalid(format!(
        "the server speaks {revision}, which has no subscriptions/listen: use Client::subscribe, and hear changes with the handler"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_written_and_read() {
        let filter = ListenFilter::new().list(List::Prompts).resource("b:").resource("a:");
        let raw = filter.to_raw();
        assert_eq!(raw.as_str(), r#"{"promptsListChanged":true,"resourceSubscriptions":["a:","b:"]}"#);
        assert_eq!(ListenFilter::of(&raw), filter);
        assert!(filter.has_list(List::Prompts) && !filter.has_list(List::Tools));
        assert_eq!(filter.resources().collect::<Vec<_>>(), ["a:", "b:"]);
        let odd = Raw::parse(r#"{"toolsListChanged":"yes","resourceSubscriptions":7}"#).unwrap();
        assert!(ListenFilter::of(&odd).is_empty());
        assert_eq!(ListenFilter::lists().refresh().count(), 3);
    }

    #[test]
    fn what_was_heard() {
        let note = |method: &str, params: &str| {
            Change::of(&Notification::new(method, Some(Raw::parse(params.to_owned()).unwrap())))
        };
        assert_eq!(note("notifications/prompts/list_changed", "{}"), Change::List(List::Prompts));
        assert_eq!(
            note("notifications/resources/updated", r#"{"uri":"a:b"}"#),
            Change::Resource("a:b".into())
        );
        assert!(matches!(note("notifications/resources/updated", "{}"), Change::Other(_)));
        assert!(matches!(note("notifications/tasks", "{}"), Change::Other(_)));
    }
}
