//! Clusters: nodes that die, nodes that come back with less.

use crate::support::{
    ALL, LONG, at, call, connect, event, expected, figure, made, options, payload, stream_id, until,
};
use bowline_store::{Appended, ReadError, StreamLog as _, WakeBus as _, WriteError};
use bowline_store_redis::{Options, RedisStore};
use bowline_testkit::{Redis, RedisCluster};
use std::time::Duration;
use tokio::time::timeout;

/// The index of the node that has the stream's record.
async fn home(cluster: &RedisCluster, id: bowline_proto::cursor::StreamId, nodes: usize) -> usize {
    for (index, node) in cluster.nodes.iter().take(nodes).enumerate() {
        if !node.keys(&format!("*:s:{id:?}")).await.is_empty() {
            return index;
        }
    }
    panic!("no node has it")
}

async fn append(store: &RedisStore, id: bowline_proto::cursor::StreamId, offset: u64) {
    until("an append", async || match store.append(at(id, 1, offset), event(offset)).await {
        Ok(_) => true,
        Err(WriteError::Unavailable(_)) => false,
        Err(error) => panic!("offset {offset}: {error}"),
    })
    .await;
}

/// One node of the cluster is named as if it were a single server.
#[tokio::test]
async fn a_cluster_is_recognised_by_one_node() {
    let cluster = RedisCluster::start(3, false).await;
    let store = connect(&cluster.nodes[0].url(), Options::default()).await;
    let other = connect(&cluster.nodes[1].url(), Options::default()).await;
    let mut homes = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let id = stream_id();
        let mut wakeups = other.subscribe(id);
        store.create(call(id)).await.expect("making a stream");
        while timeout(Duration::from_millis(100), wakeups.changed()).await.is_ok() {}
        store.append(at(id, 1, 1), event(1)).await.expect("appending");
        // Whatever node the writer and the listener are at.
        timeout(Duration::from_secs(10), wakeups.changed()).await.expect("a wake-up");
        assert_eq!(other.read_after(id, 0, ALL).await.map(|page| page.events), Ok(expected(0, 1)));
        homes.insert(home(&cluster, id, 3).await);
    }
    assert_eq!(homes.len(), 3, "streams are spread over all nodes");
}

#[tokio::test]
async fn a_node_that_dies_is_replaced_by_its_replica() {
    let mut cluster = RedisCluster::start(3, true).await;
    let store = connect(&cluster.url(), Options::default()).await;
    let other = connect(&cluster.url(), Options::default()).await;
    let streams =
        [made(&store, 3).await, made(&store, 3).await, made(&store, 3).await, made(&store, 3).await];
    let victim = home(&cluster, streams[0], 3).await;
    cluster.nodes[victim].kill().await;
    for id in streams {
        append(&store, id, 4).await;
        append(&store, id, 5).await;
        until("a reader", async || match other.read_after(id, 0, ALL).await {
            Ok(page) => {
                assert_eq!(page.events, expected(0, 5));
                true
            }
            Err(ReadError::Unavailable(_)) => false,
            Err(error) => panic!("{error}"),
        })
        .await;
    }
}

/// The cluster's client makes its connections anew by itself: that a node has lost its memory has to be noticed otherwise.
#[tokio::test]
async fn what_a_node_forgot_is_written_again() {
    let mut cluster = RedisCluster::start(3, false).await;
    let store = connect(&cluster.url(), options(|o| o.settle = Duration::from_secs(20))).await;
    let id = made(&store, 5).await;
    let index = home(&cluster, id, 3).await;
    let node: &mut Redis = &mut cluster.nodes[index];
    assert_eq!(node.ask(&["SAVE"]).await.text(), "OK");
    append(&store, id, 6).await;
    assert_eq!(store.seal(at(id, 1, 7), Some(payload(7)), LONG).await, Ok(Appended::New));
    // So that the store has seen the node as it was.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    node.restart().await;
    until("the stream is whole and sealed", async || {
        let page = store.read_after(id, 0, ALL).await;
        page.is_ok_and(|page| page.sealed && page.events == expected(0, 7))
    })
    .await;
    assert!(figure(&store, "store_redis_events_resent") >= 2);
}
