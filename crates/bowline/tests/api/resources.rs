//! Resources, templates, completion, subscriptions.

use crate::revisions;
use bowline::{
    Call, Error, Json, Reference, Resource, ResourceContents, ResourceTemplate, Server, Typed,
    testing::Client,
};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Row {
    table: String,
    id: u32,
}

fn server() -> Server {
    Server::builder("s", "1")
        .subscriptions()
        .resource(Resource::new("x:text", "text").mime_type("text/plain"), |_: Call| async { "a text" })
        .resource(Resource::new("x:bytes", "bytes"), |_: Call| async { vec![1_u8, 2, 3] })
        .resource(Resource::new("x:two", "two"), |_: Call| async {
            vec![ResourceContents::text("1").uri("x:two/1"), ResourceContents::text("2").uri("x:two/2")]
        })
        .resource(Resource::new("x:fails", "fails"), |_: Call| async {
            "x".parse::<u8>().map(|_| String::new())
        })
        .resource_template(
            ResourceTemplate::new("db://{table}/{id}", "row").description("A row"),
            |_: Call, Row { table, id }: Row| async move {
                if id > 9 {
                    return Err(Error::resource_not_found(&format!("db://{table}/{id}")));
                }
                Ok(Json(json!({ "table": table, "id": id })))
            },
        )
        .completion(Reference::resource("db://{table}/{id}"), "table", |_: Call, typed: Typed| async move {
            let (value, id) = (typed.value, typed.others.get("id").cloned().unwrap_or_default());
            ["users", "uploads", "orders"]
                .into_iter()
                .filter(|name| name.starts_with(&value))
                .map(|name| format!("{name}{id}"))
                .collect::<Vec<_>>()
        })
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn resources_are_read_in_every_revision() {
    for revision in revisions() {
        let client = Client::builder().revision(revision).connect(&server()).await;
        let read = async |uri: &str| client.request("resources/read", json!({ "uri": uri })).await;
        assert_eq!(
            read("x:text").await.unwrap(),
            json!({ "contents": [{ "uri": "x:text", "mimeType": "text/plain", "text": "a text" }] })
        );
        assert_eq!(
            read("x:bytes").await.unwrap(),
            json!({ "contents": [{ "uri": "x:bytes", "blob": "AQID" }] })
        );
        assert_eq!(read("x:two").await.unwrap()["contents"][1]["uri"], "x:two/2");
        let row = read("db://us%20ers/7").await.unwrap();
        assert_eq!(row["contents"][0]["uri"], "db://us%20ers/7");
        assert_eq!(row["contents"][0]["mimeType"], "application/json");
        assert_eq!(row["contents"][0]["text"], r#"{"id":7,"table":"us ers"}"#);
        for uri in ["x:none", "db://users/seven", "db://users/10", "db://users/1/2", ""] {
            let error = read(uri).await.unwrap_err();
            assert_eq!(error.code, -32002, "{revision} {uri}");
            assert_eq!(error.data.unwrap().member("uri").unwrap().string().unwrap(), uri);
        }
        assert_eq!(read("x:fails").await.unwrap_err().code, -32603);
    }
}

#[tokio::test(start_paused = true)]
async fn resources_and_templates_are_listed_apart() {
    let client = Client::connect(&server()).await;
    let list = client.request("resources/list", json!({})).await.unwrap();
    let uris: Vec<_> =
        list["resources"].as_array().unwrap().iter().map(|resource| resource["uri"].clone()).collect();
    assert_eq!(uris, ["x:text", "x:bytes", "x:two", "x:fails"]);
    let list = client.request("resources/templates/list", json!({})).await.unwrap();
    assert_eq!(
        list["resourceTemplates"],
        json!([{ "uriTemplate": "db://{table}/{id}", "name": "row", "description": "A row" }])
    );
}

#[tokio::test(start_paused = true)]
async fn variables_are_completed() {
    let client = Client::connect(&server()).await;
    let complete = async |uri: &str, argument: &str, others: serde_json::Value| {
        let params = json!({
            "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": argument, "value": "u" },
            "context": { "arguments": others },
        });
        client.request("completion/complete", params).await
    };
    let values = complete("db://{table}/{id}", "table", json!({ "id": "7" })).await.unwrap();
    assert_eq!(
        values["completion"],
        json!({ "values": ["users7", "uploads7"], "total": 2, "hasMore": false })
    );
    // What is there but has no proposals; what is not there.
    let values = complete("db://{table}/{id}", "id", json!({})).await.unwrap();
    assert_eq!(values["completion"]["values"], json!([]));
    assert_eq!(complete("x:{none}", "a", json!({})).await.unwrap_err().code, -32602);
}

#[tokio::test(start_paused = true)]
async fn subscribers_are_told_and_nobody_else() {
    let server = server();
    let (reader, other) = (Client::connect(&server).await, Client::connect(&server).await);
    let subscribe = async |uri: &str| reader.request("resources/subscribe", json!({ "uri": uri })).await;
    assert_eq!(subscribe("x:text").await.unwrap(), json!({}));
    assert_eq!(subscribe("db://users/1").await.unwrap(), json!({}));
    assert_eq!(subscribe("x:none").await.unwrap_err().code, -32002);
    assert_eq!(server.handle().resource_updated("x:text"), 1);
    assert_eq!(server.handle().resource_updated("x:bytes"), 0);
    assert_eq!(server.handle().resource_updated("db://users/1"), 1);
    for uri in ["x:text", "db://users/1"] {
        assert_eq!(
            reader.notification().await.unwrap(),
            json!({ "method": "notifications/resources/updated", "params": { "uri": uri } })
        );
    }
    reader.request("resources/unsubscribe", json!({ "uri": "x:text" })).await.unwrap();
    assert_eq!(server.handle().resource_updated("x:text"), 0);
    assert!(other.notifications().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_subscriptions_there_are_none() {
    let server = Server::builder("s", "1")
        .resource(Resource::new("x:text", "text"), |_: Call| async { "" })
        .build()
        .unwrap();
    let client = Client::connect(&server).await;
    assert_eq!(client.initialize_result()["capabilities"]["resources"]["subscribe"], false);
    let error = client.request("resources/subscribe", json!({ "uri": "x:text" })).await.unwrap_err();
    assert_eq!(error.code, -32601);
}
