//! What most of many things never have.

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

/// A value behind a lock that is made when it is first needed, and takes two words until then.
pub(crate) struct Rare<T>(Mutex<Option<Box<T>>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Default> Rare<T> {
    /// The value, made now if need be.
    pub(crate) fn lock(&self) -> MappedMutexGuard<'_, T> {
        MutexGuard::map(self.0.lock(), |held| &mut **held.get_or_insert_default())
    }

    /// The value, if it was ever needed.
    pub(crate) fn lock_if_made(&self) -> Option<MappedMutexGuard<'_, T>> {
        MutexGuard::try_map(self.0.lock(), Option::as_deref_mut).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_by_who_needs_it() {
        let rare = Rare::<Vec<u8>>::default();
        assert!(rare.lock_if_made().is_none());
        rare.lock().push(1);
        assert_eq!(*rare.lock_if_made().unwrap(), [1]);
        assert_eq!(size_of::<Rare<[u64; 9]>>(), 2 * size_of::<usize>());
    }
}
