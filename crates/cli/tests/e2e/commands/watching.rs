//! `bowline watch`.

use super::{assert_prints, line};
use crate::{
    common::fixture,
    support::{bowline, soon},
};
use bowline_testkit::{PATIENCE, eventually, processes};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// A list that another client changes at the server that both share.
#[tokio::test]
async fn what_changes_is_printed_as_it_happens() {
    let program = fixture().with("--child shared").start().await;
    let mut child = bowline(&["watch", program.url()]).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(soon("its start", stderr.next_line()).await.unwrap().as_deref(), Some("watching fixture"));
    for answer in ["swapped is there\n", "swapped is gone\n"] {
        assert_prints(&line(&["call", program.url(), "swap"]).await, answer);
        assert_eq!(soon("a line", stdout.next_line()).await.unwrap().as_deref(), Some("tools changed"));
    }
    processes::signal(child.id().unwrap(), Signal::INT);
    assert_eq!(soon("its end", child.wait()).await.unwrap().code(), Some(0));
    assert_eq!(soon("the end of stdout", stdout.next_line()).await.unwrap(), None);
}

#[tokio::test]
async fn resources_that_are_subscribed_to() {
    let program = fixture().start().await;
    let mut child = bowline(&["watch", program.url(), "fixture://counter"]).spawn().unwrap();
    program
        .has_received("the subscription", |message| {
            message["method"] == "resources/subscribe" && message["params"]["uri"] == "fixture://counter"
        })
        .await;
    processes::signal(child.id().unwrap(), Signal::TERM);
    assert_eq!(soon("its end", child.wait()).await.unwrap().code(), Some(0));
    eventually("the end of the session's server", PATIENCE, || program.servers().is_empty()).await;
}

/// So many messages, as JSON.
#[tokio::test]
async fn it_ends_after_so_many() {
    let program = fixture().with("--child shared").start().await;
    let mut child = bowline(&["watch", program.url(), "--count", "1", "-o", "json"]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    soon("its start", stderr.next_line()).await.unwrap();
    assert_eq!(line(&["call", program.url(), "swap"]).await.code, Some(0));
    let output = soon("its end", child.wait_with_output()).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), text.as_str()),
        (Some(0), "{\"method\":\"notifications/tools/list_changed\",\"params\":{}}\n")
    );
}

#[tokio::test]
async fn it_ends_after_its_time() {
    let program = fixture().start().await;
    let ended = line(&["watch", program.url(), "--for", "300ms"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("watching fixture"), "{}", ended.stderr);
}
