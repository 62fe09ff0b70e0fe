//! How tasks are started: one place, so that a simulation can take hold of everything that an endpoint does.

use std::future::Future;
use tokio::task::JoinHandle;

/// Starts a task on the runtime that this is called in.
///
/// # Panics
/// Outside a runtime.
pub(crate) fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    #[cfg(feature = "simulation")]
    let work = crate::simulation::inherited(work);
    tokio::spawn(work)
}
