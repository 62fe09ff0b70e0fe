//! Whole runs, quick ones.

use super::*;
use serde_json::Value;

fn options(json: bool) -> DemoOptions {
    DemoOptions { seconds: 20, fast: true, json }
}

#[tokio::test]
async fn a_run_has_every_kind_of_disconnect_and_loses_nothing() {
    let mut out = Vec::new();
    let verdict = run_to(&options(true), &mut out).await.unwrap();
    assert_eq!(verdict.ledger.received, (1..=NUMBERS).collect::<Vec<_>>());

    let lines: Vec<Value> =
        std::str::from_utf8(&out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, happenings) = lines.split_last().unwrap();
    let count =
        |field: &str, value: &str| happenings.iter().filter(|line| line[field] == value).count() as u64;
    assert!(count("how", "closed_by_server") >= 1);
    assert!(count("what", "cut") >= 1);
    assert!(count("what", "resumed") >= 2);
    assert_eq!(count("what", "counted"), NUMBERS);
    assert_eq!(count("what", "received"), NUMBERS);
    assert_eq!(count("what", "result"), 1);
    assert_eq!(count("what", "started"), 1);
    assert!(happenings.windows(2).all(|pair| {
        // Two sides write to one queue, so neighbours may be a moment off.
        pair[0]["at_ms"].as_u64().unwrap() <= pair[1]["at_ms"].as_u64().unwrap() + 50
    }));
    let resumed: Vec<&str> = happenings.iter().filter_map(|line| line["last_event_id"].as_str()).collect();
    assert!(resumed.windows(2).all(|pair| pair[0] != pair[1]), "each resume is from another place");

    assert_eq!(last["what"], "verdict");
    assert_eq!(last["ok"], true);
    assert_eq!(last["problems"], serde_json::json!([]));
    assert_eq!(last["resumes"], count("what", "resumed"));
    assert_eq!(last["connections"], 1 + count("what", "resumed"));
    assert!(last["bytes_down"].as_u64().unwrap() > 1_000);
}
