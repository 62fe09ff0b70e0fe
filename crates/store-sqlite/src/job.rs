//! What the committer is asked to do.

use crate::tx::Tx;
use bowline_store::Unavailable;
use tokio::sync::oneshot;

/// One operation in a batch.
pub(crate) trait Work: Send {
    /// Does it within a transaction. May be called again, after that transaction was rolled back.
    ///
    /// # Errors
    /// When SQLite refused; nothing of the transaction stays then.
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;

    /// Whether nobody waits for the answer any more.
    fn is_abandoned(&self) -> bool;

    /// Answers, after the transaction was committed.
    fn answer(self: Box<Self>);

    /// Answers that nothing was done.
    fn fail(self: Box<Self>, why: Unavailable);
}

/// A change, and who waits for what comes of it.
pub(crate) struct Change<T, F> {
    work: F,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T, Unavailable>>,
}

impl<T, F> Change<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send,
{
    pub(crate) const fn new(work: F, reply: oneshot::Sender<Result<T, Unavailable>>) -> Self {
        Self { work, answer: None, reply }
    }
}

impl<T, F> Work for Change<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        self.answer = Some((self.work)(tx)?);
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn answer(self: Box<Self>) {
        if let Some(answer) = self.answer {
            // Whoever gave up waiting knows that the outcome is open.
            let _ = self.reply.send(Ok(answer));
        }
    }

    fn fail(self: Box<Self>, why: Unavailable) {
        let _ = self.reply.send(Err(why));
    }
}
