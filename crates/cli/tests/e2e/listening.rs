//! The client's typed listen stream in front of this program, which is killed and started again.

use crate::common::fixture;
use bowline_client::{Change, Client, ClientOptions, Era, List, ListenFilter, Listening, Target};
use bowline_testkit::PATIENCE;
use serde_json::json;

async fn next(listening: &mut Listening) -> Change {
    let change = tokio::time::timeout(PATIENCE, listening.next()).await.expect("a change in time");
    change.expect("no error").expect("it goes on")
}

#[tokio::test]
async fn a_modern_client_hears_changes_and_the_server_that_takes_the_place_of_the_first() {
    let program = fixture().with("--child shared").start().await;
    let address = program.address();
    let mut options = ClientOptions::new("test", "1").era(Era::Modern);
    options.standalone = false;
    let client = Client::connect(Target::http(program.url()).unwrap(), options).await.unwrap();
    let filter = ListenFilter::new().list(List::Tools).resource("fixture://counter");
    let mut listening = client.listen(filter.clone()).await.unwrap();
    assert_eq!(listening.accepted(), filter);
    assert_eq!(client.call_tool("swap", &json!({})).await.unwrap().text(), "swapped is there");
    assert_eq!(next(&mut listening).await, Change::List(List::Tools));

    program.kill();
    drop(program);
    let program = fixture().with("--child shared").listen(address).start().await;
    let missed = [next(&mut listening).await, next(&mut listening).await];
    assert_eq!(missed, [Change::List(List::Tools), Change::Resource("fixture://counter".into())]);
    assert_eq!(client.call_tool("swap", &json!({})).await.unwrap().text(), "swapped is there");
    assert_eq!(next(&mut listening).await, Change::List(List::Tools));
    listening.close().await;
    client.close().await;
    drop(program);
}
