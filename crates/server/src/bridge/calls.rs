//! Requests in the hands of another implementation.

use crate::Call;
use bowline_proto::jsonrpc::Raw;
use std::collections::BTreeMap;

/// The requests that another implementation works on, by the ids that it knows them by, each with what waits for its
/// outcome. Ids are numbers that only grow, so their order is that of arrival. Without a bound of its own.
#[derive(Debug)]
pub struct Calls<T>(BTreeMap<u64, Entry<T>>);

#[derive(Debug)]
struct Entry<T> {
    call: Option<Call>,
    /// The client's progress token, in the form of [`token_key`].
    token: Option<String>,
    waits: T,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Calls<T> {
    /// Adds a request; `call` is the client's call that it is made for, if it is.
    pub fn insert(&mut self, id: u64, call: Option<&Call>, waits: T) {
        let token = call.and_then(Call::progress_token).map(token_key);
        self.0.insert(id, Entry { call: call.cloned(), token, waits });
    }

    /// Whether there is a request with this id.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.0.contains_key(&id)
    }

    /// Takes a request out.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        self.0.remove(&id).map(|entry| entry.waits)
    }

    /// Takes the only request out, if it is the only one.
    pub fn remove_only(&mut self) -> Option<T> {
        if self.0.len() == 1 { self.0.pop_first().map(|(_, entry)| entry.waits) } else { None }
    }

    /// Takes every request out, in the order of arrival.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.0).into_values().map(|entry| entry.waits)
    }

    /// How many requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many calls of clients there are, and the newest of them.
    #[must_use]
    pub fn running(&self) -> (usize, Option<Call>) {
        let mut calls = self.0.values().rev().filter_map(|entry| entry.call.as_ref());
        let newest = calls.next().cloned();
        (usize::from(newest.is_some()) + calls.count(), newest)
    }

    /// The call with that progress token; the newest, should a client have used it twice.
    #[must_use]
    pub fn with_token(&self, token: &Raw) -> Option<Call> {
        let key = token_key(token);
        self.0.values().rev().find(|entry| entry.token.as_ref() == Some(&key))?.call.clone()
    }

    /// From here on, what is made for `from` is made for `to`.
    pub fn hand_over(&mut self, from: &Call, to: &Call) {
        for entry in self.0.values_mut() {
            if entry.call.as_ref().is_some_and(|call| call.is(from)) {
                entry.token = to.progress_token().map(token_key);
                entry.call = Some(to.clone());
            }
        }
    }

    /// The call that the request with this id is made for.
    #[must_use]
    pub fn call(&self, id: u64) -> Option<Call> {
        self.0.get(&id)?.call.clone()
    }
}

/// A progress token in a form that is equal where the tokens are: a server may write a string with other escapes.
fn token_key(token: &Raw) -> String {
    token.string().map_or_else(|| token.as_str().to_owned(), |text| format!("\"{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_equal_where_their_values_are() {
        let key = |text: &str| token_key(&Raw::parse(text.to_owned()).unwrap());
        assert_eq!(key(r#""a""#), key(r#""\u0061""#));
        assert_ne!(key("1"), key(r#""1""#));
        assert_ne!(key("1"), key("-1"));
    }

    #[test]
    fn the_only_one_is_taken_only_if_it_is_that() {
        let mut calls = Calls::default();
        assert_eq!(calls.remove_only(), None);
        calls.insert(1, None, 'a');
        calls.insert(2, None, 'b');
        assert_eq!(calls.remove_only(), None);
        assert!(calls.contains(1) && !calls.contains(3));
        assert_eq!(calls.remove(1), Some('a'));
        assert_eq!((calls.remove_only(), calls.is_empty()), (Some('b'), true));
        assert_eq!(calls.running().0, 0, "requests of our own are no calls");
    }
}
