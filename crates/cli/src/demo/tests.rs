//! Whole runs, quick ones.

use super::*;
use clap::{CommandFactory as _, Parser};
use serde_json::Value;

#[tokio::test]
async fn a_run_has_every_kind_of_disconnect_and_loses_nothing() {
    let mut out = Vec::new();
    let verdict = run_to(Pace::new(Duration::from_millis(100)), true, &mut out).await.unwrap();
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

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    demo: DemoOptions,
}

fn parse(arguments: &[&str]) -> Result<DemoOptions, clap::error::ErrorKind> {
    let arguments = ["demo"].iter().chain(arguments);
    Arguments::try_parse_from(arguments).map(|parsed| parsed.demo).map_err(|error| error.kind())
}

#[test]
fn the_pace_follows_from_how_long_it_counts() {
    Arguments::command().debug_assert();
    let tick = |arguments: &[&str]| Pace::of(&parse(arguments).unwrap()).tick;
    assert_eq!(tick(&[]), Duration::from_secs(1));
    assert_eq!(tick(&["--seconds", "2"]), Duration::from_millis(100));
    assert_eq!(tick(&["--seconds", "600"]), Duration::from_secs(30));
    assert_eq!(tick(&["--fast"]), Duration::from_millis(250));
    assert!(parse(&["--json"]).unwrap().json);
    for refused in ["1", "601", "-1", "x"] {
        assert!(parse(&[&format!("--seconds={refused}")]).is_err(), "{refused}");
    }
    assert!(parse(&["--fast", "--seconds", "9"]).is_err());
}

#[test]
fn a_bad_verdict_is_an_error_that_says_why() {
    let verdict = Verdict::new(1, Ledger::default(), relay::Traffic::default());
    let error = conclude(verdict).unwrap_err().to_string();
    assert!(error.starts_with("the demo failed: lost: 1; the result never came"), "{error}");
}

/// A pipe whose reader has gone.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_reader_that_went_away_ends_the_run() {
    let pace = Pace::new(Duration::from_secs(30));
    let ended = run_to(pace, false, &mut Gone).await;
    assert!(matches!(ended, Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe));
}
