use crate::{
    Kit,
    harness::{LONG, at, bytes},
};
use bowline_store::Letter;
use std::{collections::BTreeSet, sync::Arc};

fn letter(number: u64, key: &str, payload: &str) -> Letter {
    Letter { number, key: key.to_owned(), payload: bytes(payload) }
}

pub(super) async fn letters_come_in_order(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    let other = kit.call().await?;
    expect_eq!(kit.store.letters_after(id, 0).await, Ok(vec![]), "an empty box");
    for n in 1..=5 {
        let (key, payload) = (format!("key \"{n}\""), format!("letter {n}"));
        expect!(kit.store.put_letter(id, &key, bytes(&payload), LONG).await, Ok(true), "letter {n}");
    }
    let all: Vec<_> = (1..=5).map(|n| letter(n, &format!("key \"{n}\""), &format!("letter {n}"))).collect();
    for after in 0..=5_usize {
        let letters = value!(kit.store.letters_after(id, after as u64).await, "letters after {after}");
        expect_eq!(letters, all[after..], "letters after {after}");
    }
    expect_eq!(kit.store.letters_after(id, 99).await, Ok(vec![]), "letters after 99");
    expect_eq!(kit.store.letters_after(other, 0).await, Ok(vec![]), "the box of another call");
    Ok(())
}

pub(super) async fn a_letter_is_there_once(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    let store = &kit.store;
    expect!(store.put_letter(id, "1", bytes("a"), LONG).await, Ok(true), "a letter");
    expect!(store.put_letter(id, "1", bytes("other"), LONG).await, Ok(false), "its key again");
    expect!(store.put_letter(id, "2", bytes("b"), LONG).await, Ok(true), "another key");
    value!(store.letters_after(id, 0).await, "reading");
    expect!(store.put_letter(id, "1", bytes("a"), LONG).await, Ok(false), "the first key, after it was read");
    let expected = vec![letter(1, "1", "a"), letter(2, "2", "b")];
    expect_eq!(store.letters_after(id, 0).await, Ok(expected), "the box");
    Ok(())
}

pub(super) async fn a_box_needs_no_stream(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::stream_id();
    expect!(
        kit.store.put_letter(id, "cancel", bytes("c"), LONG).await,
        Ok(true),
        "before the call said anything"
    );
    kit.make(crate::harness::call(id)).await?;
    let expected = Ok(vec![letter(1, "cancel", "c")]);
    expect_eq!(kit.store.letters_after(id, 0).await, expected, "the box after the stream was made");
    expect!(
        kit.store.seal(at(id, 1, 1), None, LONG).await,
        Ok(bowline_store::Appended::New),
        "sealing the stream"
    );
    expect_eq!(kit.store.letters_after(id, 0).await, expected, "the box after the stream was sealed");
    Ok(())
}

pub(super) async fn a_dropped_box_is_empty(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    expect!(kit.store.put_letter(id, "1", bytes("a"), LONG).await, Ok(true), "a letter");
    expect!(kit.store.drop_mailbox(id).await, Ok(()), "dropping the box");
    expect_eq!(kit.store.letters_after(id, 0).await, Ok(vec![]), "the box");
    expect!(kit.store.drop_mailbox(id).await, Ok(()), "dropping it again");
    Ok(())
}

pub(super) async fn a_box_expires(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::stream_id();
    expect!(kit.store.put_letter(id, "1", bytes("a"), kit.units(3)).await, Ok(true), "a letter");
    kit.advance(1).await;
    expect_eq!(kit.store.letters_after(id, 0).await, Ok(vec![letter(1, "1", "a")]), "the box in its time");
    expect!(
        kit.store.put_letter(id, "2", bytes("b"), kit.units(8)).await,
        Ok(true),
        "a letter that is kept longer"
    );
    kit.advance(4).await;
    let expected = Ok(vec![letter(1, "1", "a"), letter(2, "2", "b")]);
    expect_eq!(kit.store.letters_after(id, 0).await, expected, "the box in the time of its newest letter");
    kit.advance(6).await;
    expect_eq!(kit.store.letters_after(id, 0).await, Ok(vec![]), "the box past its time");
    Ok(())
}

pub(super) async fn letters_of_many_senders_are_all_there(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    let senders: Vec<_> = (0..30)
        .map(|n| {
            let store = Arc::clone(&kit.store);
            // Each key comes from three senders.
            tokio::spawn(async move { store.put_letter(id, &format!("{}", n % 10), bytes("x"), LONG).await })
        })
        .collect();
    let mut new = 0;
    for sender in senders {
        let is_new = value!(value!(sender.await, "waiting for a sender"), "putting a letter");
        new += usize::from(is_new);
    }
    let letters = value!(kit.store.letters_after(id, 0).await, "reading");
    let keys: BTreeSet<_> = letters.iter().map(|letter| letter.key.as_str()).collect();
    expect_eq!(
        (new, letters.len(), keys.len()),
        (10, 10, 10),
        "letters that were new, in the box, and their keys"
    );
    if !letters.is_sorted_by(|a, b| a.number < b.number) {
        return Err(format!("the letters are not in the order of their numbers: {letters:?}"));
    }
    Ok(())
}
