use crate::{Kit, harness::bytes};
use bytes::Bytes;

/// A list that nobody had before.
fn fresh() -> Vec<Bytes> {
    vec![bytes(&format!("{:?}", Kit::stream_id())), bytes(&format!("{:?}", Kit::stream_id()))]
}

pub(super) async fn keys_are_replaced_by_who_knows_them(kit: &Kit<'_>) -> Result<(), String> {
    let before = value!(kit.store.shared_keys().await, "reading the keys");
    let (first, second) = (fresh(), fresh());
    let stale = kit.store.swap_keys(second.clone(), second.clone()).await;
    expect_eq!(stale, Ok(before.clone()), "replacing keys that are not in force");
    let won = kit.store.swap_keys(before.clone(), first.clone()).await;
    expect_eq!(won, Ok(first.clone()), "replacing the keys in force");
    let lost = kit.store.swap_keys(before.clone(), second).await;
    expect_eq!(lost, Ok(first.clone()), "replacing what was replaced before");
    expect_eq!(kit.store.shared_keys().await, Ok(first.clone()), "what is in force");
    // For whoever uses the store besides.
    expect_eq!(kit.store.swap_keys(first, before.clone()).await, Ok(before), "putting the former keys back");
    Ok(())
}

pub(super) async fn one_of_many_sets_of_keys_wins(kit: &Kit<'_>) -> Result<(), String> {
    let before = value!(kit.store.shared_keys().await, "reading the keys");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, before, after) = (kit.store.clone(), before.clone(), fresh());
        tasks.spawn(async move { (after.clone(), store.swap_keys(before, after).await) });
    }
    let answers = tasks.join_all().await;
    let in_force = value!(kit.store.shared_keys().await, "reading the keys");
    let mut winners = 0;
    for (mine, answer) in answers {
        expect_eq!(answer, Ok(in_force.clone()), "what everybody is told");
        winners += usize::from(mine == in_force);
    }
    expect_eq!(winners, 1, "how many won");
    expect_eq!(
        kit.store.swap_keys(in_force, before.clone()).await,
        Ok(before),
        "putting the former keys back"
    );
    Ok(())
}
