//! What changes while the server runs is announced to every session.

use bowline::{BuildError, Call, NoInput, Resource, Server, testing::Client};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn lists_change_and_are_announced() {
    let server = Server::builder("s", "1")
        .with_state(7_u32)
        .tool("old", "d", |_: Call<u32>, _: NoInput| async {})
        .build()
        .unwrap();
    let clients = [Client::connect(&server).await, Client::connect(&server).await];
    server
        .handle()
        .change(|server| {
            server
                .remove_tool("old")
                .tool("new", "d", |ctx: Call<u32>, _: NoInput| async move { ctx.shared().to_string() })
        })
        .unwrap();
    for client in &clients {
        assert_eq!(client.notification().await.unwrap()["method"], "notifications/tools/list_changed");
        let list = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(list["tools"][0]["name"], "new");
        assert_eq!(client.call_tool("new", json!({})).await.unwrap()["content"][0]["text"], "7");
        assert_eq!(client.call_tool("old", json!({})).await.unwrap_err().code, -32602);
    }
    // Only what is different is announced.
    server
        .handle()
        .change(|server| {
            server.resource(Resource::new("x:y", "y"), |_: Call<u32>| async { "" }).prompt(
                "p",
                "d",
                |_: Call<u32>, _: NoInput| async { "" },
            )
        })
        .unwrap();
    for client in &clients {
        assert_eq!(client.notification().await.unwrap()["method"], "notifications/resources/list_changed");
        assert_eq!(client.notification().await.unwrap()["method"], "notifications/prompts/list_changed");
        assert!(client.notifications().await.is_empty());
    }
    server.handle().change(|server| server.remove_resource("x:y").remove_prompt("p")).unwrap();
    assert_eq!(clients[0].request("resources/read", json!({ "uri": "x:y" })).await.unwrap_err().code, -32002);
}

#[tokio::test(start_paused = true)]
async fn a_change_with_a_mistake_changes_nothing() {
    let server = Server::builder("s", "1").tool("a", "d", |_: Call, _: NoInput| async {}).build().unwrap();
    let client = Client::connect(&server).await;
    let error = server.handle().change(|server| server.remove_tool("a").remove_tool("b")).unwrap_err();
    assert_eq!(error, BuildError::NothingToRemove { kind: "tool", name: "b".into() });
    assert_eq!(client.request("tools/list", json!({})).await.unwrap()["tools"][0]["name"], "a");
    assert!(client.notifications().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_handshake_says_what_the_server_has() {
    let bare = Client::connect(&Server::builder("s", "1").build().unwrap()).await;
    assert_eq!(bare.initialize_result()["capabilities"], json!({ "logging": {} }));
    let server = Server::builder("s", "2")
        .title("S")
        .description("d")
        .website("https://e.example")
        .instructions("use it")
        .tool("t", "d", |_: Call, _: NoInput| async {})
        .build()
        .unwrap();
    for revision in crate::revisions() {
        let client = Client::builder().revision(revision).connect(&server).await;
        let hello = client.initialize_result();
        assert_eq!(hello["protocolVersion"], revision);
        assert_eq!(hello["capabilities"]["tools"]["listChanged"], true);
        assert_eq!(hello["serverInfo"]["name"], "s");
        assert_eq!(hello["instructions"], "use it");
        assert_eq!(client.request("ping", json!({})).await.unwrap(), json!({}));
    }
    assert_eq!(
        Client::connect(&server).await.initialize_result()["serverInfo"],
        json!({ "name": "s", "version": "2", "title": "S", "description": "d", "websiteUrl": "https://e.example" })
    );
}
