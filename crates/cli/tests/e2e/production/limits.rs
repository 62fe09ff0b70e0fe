//! What one client may take, through the built program.

use super::metrics;
use crate::common::{assert_refused, assert_serves, ping, serve};
use bowline_testkit::{Session, initialize};
use serde_json::json;

#[tokio::test]
async fn a_rate_with_a_burst() {
    let program = serve("--rate-limit 6/m --rate-burst 4").await;
    let session = program.client().await;
    let ping = ping().to_string();
    let first =
        [session.send("POST", &[], &ping).await.status(), session.send("POST", &[], &ping).await.status()];
    assert_eq!(first, [200, 200], "initialize, initialized and two more");
    let answer = session.send("POST", &[], &ping).await;
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=10).contains(&after), "{after}");
    let body = assert_refused(answer, 429, -32603, "one more").await;
    assert_eq!(body["error"]["data"]["reason"], "rate_limit");
    assert_eq!(super::get(program.address(), "/healthz").await.status(), 200, "probes are not limited");
}

#[tokio::test]
async fn a_client_behind_a_trusted_proxy_is_the_one_that_the_proxy_names() {
    let program = serve("--rate-limit 1/h --trust-proxy").await;
    let none = Session::none(program.address());
    let ping = ping().to_string();
    for (forwarded, status) in
        [("198.51.100.1", 400), ("198.51.100.1", 429), ("1.1.1.1, 198.51.100.1", 429), ("198.51.100.2", 400)]
    {
        let answer = none.send("POST", &[("X-Forwarded-For", forwarded)], &ping).await;
        assert_eq!(answer.status(), status, "{forwarded}");
    }
}

#[tokio::test]
async fn requests_at_a_time() {
    let program = serve("--max-concurrent-per-client 2").await;
    let session = program.client().await;
    let standalone = session.get(None).await;
    let slow = session.call("slow", json!({ "ms": 60_000 })).await;
    let refused = session.ask("ping", json!({})).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_refused(refused, 429, -32603, "the third").await;
    standalone.abort();
    slow.abort();
    for _ in 0..100 {
        if session.ask("ping", json!({})).await.status() == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the places do not come back: {:#?}", metrics(&program).await);
}

#[tokio::test]
async fn sessions_of_a_client() {
    let program = serve("--max-sessions-per-client 2 --child shared").await;
    let sessions = [program.client().await, program.client().await];
    let none = Session::none(program.address());
    let mut refused = none.post(&initialize("2025-11-25")).await;
    assert_eq!((refused.status(), refused.header("retry-after")), (429, Some("30")));
    assert_eq!(refused.json().await["error"]["data"]["reason"], "too_many_sessions_of_client");
    for session in &sessions {
        assert_serves(session).await;
    }
    assert_eq!(sessions[0].delete().await.status(), 204);
    let third = program.client().await;
    assert_serves(&third).await;
    let seen = metrics(&program).await;
    assert_eq!(seen[r#"bowline_bound_hits_total{bound="max-sessions-per-client"}"#], 1, "{seen:#?}");
}
