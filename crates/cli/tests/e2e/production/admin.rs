//! Health and metrics: where they are, where they are not, and that they are documented.

use super::{get, metrics, metrics_at};
use crate::common::{fixture, serve};
use bowline_testkit::Dir;
use std::{collections::BTreeSet, net::SocketAddr};

#[tokio::test]
async fn a_listener_of_their_own_takes_them_from_the_endpoint() {
    let mut program = serve("--admin 127.0.0.1:0").await;
    let said = program.said();
    let (_, rest) = said.split_once("Health and metrics: http://").expect("it says where they are");
    let admin: SocketAddr = rest.split('/').next().unwrap().parse().unwrap();
    let session = program.client().await;
    crate::common::assert_serves(&session).await;
    for (path, beside, own) in
        [("/healthz", 404, 200), ("/readyz", 404, 200), ("/metrics", 404, 200), ("/mcp", 400, 404)]
    {
        assert_eq!(get(program.address(), path).await.status(), beside, "{path} beside the endpoint");
        assert_eq!(get(admin, path).await.status(), own, "{path} at --admin");
    }
    let seen = metrics_at(admin).await;
    assert_eq!(seen["bowline_sessions"], 1, "{seen:#?}");
    assert_eq!((seen["bowline_children"], seen["bowline_children_started_total"]), (1, 1));
    assert!(seen["bowline_calls_succeeded_total"] >= 1);
    program.terminate();
    assert!(program.wait().await.success());
}

#[tokio::test]
async fn metrics_stay_on_this_machine() {
    let program = fixture().listen("0.0.0.0:0".parse().unwrap()).start().await;
    assert_eq!(get(program.address(), "/metrics").await.status(), 404);
    assert_eq!(get(program.address(), "/healthz").await.status(), 200);
    let program = serve("--trust-proxy").await;
    assert_eq!(get(program.address(), "/metrics").await.status(), 404);
}

#[tokio::test]
async fn the_address_of_the_admin_listener_may_be_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = crate::support::run(crate::support::bowline(&[
        "serve", "--port", "0", "--admin", &address, "--", "cat",
    ]))
    .await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&format!("{address} is in use")), "{}", ended.stderr);
    assert!(ended.stderr.contains("--admin ADDR:PORT"), "{}", ended.stderr);
}

/// The list in the documentation is the list.
#[tokio::test]
async fn every_metric_is_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let in_code = |text: &str| {
        let words = text.split('`').skip(1).step_by(2);
        words.filter(|word| word.starts_with("bowline_")).map(ToOwned::to_owned).collect::<BTreeSet<_>>()
    };
    let documented: BTreeSet<_> = in_code(&page).into_iter().filter(|name| !name.contains('*')).collect();
    // A store file has all that the memory has, and some of its own.
    let dir = Dir::new();
    let program = serve(&format!("--store sqlite:{}", dir.join("store.db").display())).await;
    crate::common::assert_serves(&program.client().await).await;
    let seen: BTreeSet<_> =
        metrics(&program).await.keys().map(|sample| sample.split('{').next().unwrap().to_owned()).collect();
    let missing: Vec<_> = seen.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&seen).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not documented: {missing:?}; not there: {gone:?}");
    let bounds: BTreeSet<_> = metrics(&program)
        .await
        .into_keys()
        .filter_map(|sample| sample.split('"').nth(1).map(ToOwned::to_owned))
        .collect();
    for bound in bounds.iter().filter(|bound| bound.contains('-')) {
        assert!(page.contains(&format!("`{bound}`")), "the bound {bound} is not documented");
    }
}
