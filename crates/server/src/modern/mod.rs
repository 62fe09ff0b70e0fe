//! The modern revision: every request stands alone (SEMANTICS 4).
//!
//! A request gets a binding of its own in the place of a session, and runs as every other call does. What differs: its connection is its
//! life, its answer has the shape of this revision, and what would be asked of the client ends the round instead. Two ways lead on from
//! there: a handler that can run again does ([`rerun`], [`Round`]); for one that cannot, the call stays open and the next round joins it
//! (`held`).
//!
//! A call that is to go on without its connection becomes a task (`tasks`).

mod call;
mod discover;
mod held;
mod listen;
mod post;
mod round;
mod tasks;
mod trace;

pub(crate) use call::ModernCall;
pub(crate) use held::HeldCalls;
pub(crate) use listen::Listener;
pub(crate) use post::answer;
pub(crate) use tasks::{
    Again as TaskAgain, SESSION as TASKS, Tasks, run as run_task, run_again as run_task_again,
};
pub(crate) use trace::traced;

pub use round::{Round, rerun};

pub(crate) use held::ask;
