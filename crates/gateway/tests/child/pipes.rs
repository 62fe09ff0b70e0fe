//! What goes through the pipes: junk (J5), size (I7), and a process that does not read.

use std::time::Duration;

use bowline_gateway::child::{Child, ChildSpec, ExitReason, Guard, Received, SendError};
use bytes::Bytes;
use tokio::time::{Instant, timeout};

use crate::support::{PATIENCE, all_gone, line, rest, sh, spawn, start_guard};

#[tokio::test]
async fn junk_between_frames_costs_no_frame() {
    let mut spec = sh(r#"
        echo 'Server v1.2 listening on stdio'
        printf '\357\273\277{"n":1}\r\n'
        printf '\n   \r\n\n'
        printf '{"half":\n'
        printf '\377\376\200 not utf-8\n'
        echo '{"n":2}'
        head -c 1000000 /dev/zero | tr '\0' x
        head -c 1000000 /dev/zero | tr '\0' x; echo
        echo '{"n":3}'
        head -c 1000000 /dev/zero | tr '\0' x
    "#);
    spec.max_line = 100_000;
    let (child, mut lines) = Child::spawn(spec, &Guard::none()).unwrap();
    let (mut got, mut too_long) = (Vec::new(), 0);
    let exit = loop {
        match timeout(PATIENCE, lines.recv()).await.unwrap().unwrap() {
            Received::Line(line) => got.push(line),
            Received::TooLong => too_long += 1,
            Received::Exit(exit) => break exit,
        }
    };
    let expected: [&[u8]; 6] = [
        b"Server v1.2 listening on stdio",
        b"{\"n\":1}",
        b"{\"half\":",
        b"\xFF\xFE\x80 not utf-8",
        b"{\"n\":2}",
        b"{\"n\":3}",
    ];
    assert_eq!(got, expected);
    assert_eq!(exit.reason, ExitReason::Code(0));
    assert_eq!((child.stats().too_long, too_long), (2, 2));
}

#[tokio::test]
async fn twenty_megabytes_there_and_back() {
    for guard in [Guard::none(), start_guard()] {
        let (child, mut lines) = Child::spawn(ChildSpec::new("cat", [] as [&str; 0]), &guard).unwrap();
        let big: Bytes = (0..20_000_000u32).map(|n| b'a' + (n % 23) as u8).collect();
        child.send(big.clone()).await.unwrap();
        child.send("small".into()).await.unwrap();
        match timeout(PATIENCE, lines.recv()).await.unwrap() {
            Some(Received::Line(back)) => assert!(back == big, "changed on the way, {} bytes", back.len()),
            other => panic!("{other:?}"),
        }
        assert_eq!(line(&mut lines).await, "small");
        let exit = child.shutdown(Duration::from_secs(5)).await;
        assert_eq!(
            (exit.reason, exit.requested),
            (ExitReason::Code(0), true),
            "cat leaves at the end of its stdin"
        );
    }
}

#[tokio::test]
async fn many_lines_keep_their_order_and_what_is_queued_is_written_before_stdin_closes() {
    let (child, mut lines) = Child::spawn(ChildSpec::new("cat", [] as [&str; 0]), &Guard::none()).unwrap();
    let reader = tokio::spawn(async move { rest(&mut lines).await });
    for n in 0..20_000 {
        child.send(format!("{n}").into()).await.unwrap();
    }
    child.shutdown(Duration::from_secs(10)).await;
    let (got, _) = reader.await.unwrap();
    assert_eq!(got.len(), 20_000);
    assert!(got.iter().enumerate().all(|(n, line)| *line == n.to_string()));
}

#[tokio::test]
async fn a_process_that_never_reads_costs_a_deadline_and_nothing_else() {
    let mut spec = sh("echo up; sleep 600");
    spec.queue.send_bytes = 1 << 20;
    spec.queue.send_timeout = Duration::from_millis(300);
    let (child, mut lines) = Child::spawn(spec, &Guard::none()).unwrap();
    line(&mut lines).await;
    let block = Bytes::from(vec![b'x'; 100_000]);
    let full = loop {
        let start = Instant::now();
        match child.send(block.clone()).await {
            Ok(()) => assert!(child.stats().queued <= 1 << 20),
            Err(error) => break (error, Instant::now() - start),
        }
    };
    assert!(matches!(&full.0, SendError::Full { queued, .. } if *queued > 0), "{full:?}");
    assert!(full.1 < Duration::from_secs(5), "{full:?}");
    // Nor does it hold up the end, though its stdin can never be written.
    let start = Instant::now();
    child.shutdown(Duration::from_millis(100)).await;
    assert!(Instant::now() - start < Duration::from_secs(5));
    all_gone(&[child.pid()], PATIENCE).await;
}

#[tokio::test]
async fn senders_that_wait_for_room_learn_of_the_end() {
    let mut spec = sh("echo up; sleep 0.3; exit 1");
    spec.queue.send_bytes = 1;
    let (child, mut lines) = Child::spawn(spec, &Guard::none()).unwrap();
    line(&mut lines).await;
    let big = Bytes::from(vec![b'x'; 1 << 20]);
    child.send(big.clone()).await.unwrap();
    let refused =
        timeout(Duration::from_secs(8), child.send(big)).await.expect("well before the deadline of 10 s");
    assert_eq!(refused, Err(SendError::Closed { name: "sh".into() }));
}

#[tokio::test]
async fn a_dropped_receiver_does_not_block_the_process() {
    let (child, lines) =
        spawn("head -c 3000000 /dev/zero | tr '\\0' '\\n'; yes | head -n 300000; exit 4", &Guard::none());
    drop(lines);
    let end = async {
        while child.exit().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, end).await.unwrap();
    assert_eq!(child.exit().unwrap().reason, ExitReason::Code(4));
}
