//! R1, SEMANTICS 7.6: which era a server speaks.

use crate::kit::*;
use bowline_client::{Client, ClientOptions, ConnectError, Era, Target};
use bowline_testkit::scripted::{Act, Scripted, Step, on};

fn detecting() -> ClientOptions {
    let mut options = options();
    options.era = Era::Detect;
    options
}

pub(crate) fn discovered() -> Step {
    on("POST", "server/discover").result(
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"ttlMs":0,"cacheScope":"public"}"#,
    )
}

#[tokio::test]
async fn a_modern_server_is_spoken_to_without_a_handshake() {
    let server = Scripted::start([discovered(), call_done()]).await;
    let client = connect_with(&server, detecting()).await;
    assert!(client.peer().modern);
    assert_eq!(text(call(&client).await), "done");
    client.close().await;
    let methods: Vec<_> = server.seen().into_iter().map(|seen| (seen.method, seen.rpc)).collect();
    assert_eq!(
        methods,
        [("POST", "server/discover"), ("POST", "tools/call")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
}

#[tokio::test]
async fn everything_else_means_initialize() {
    let error =
        |code: i32| format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":{code},"message":"no"}}}}"#);
    let legacy_only = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}"#;
    let answers = [
        on("POST", "server/discover").answer(400, "content-type: text/html\r\n", "<html>"),
        on("POST", "server/discover").answer(404, "", ""),
        on("POST", "server/discover").answer(405, "", ""),
        on("POST", "server/discover").json(400, "", &error(-32000)),
        on("POST", "server/discover").json(400, "", &error(-32600)),
        on("POST", "server/discover").json(200, "", &error(-32601)),
        on("POST", "server/discover").json(200, "", &error(-32602)),
        on("POST", "server/discover").json(400, "", legacy_only),
        on("POST", "server/discover").stream().close(),
    ];
    for answer in answers {
        let server = Scripted::start([answer].into_iter().chain(with_session([call_done()]))).await;
        let client = connect_with(&server, detecting()).await;
        assert!(!client.peer().modern);
        assert_eq!(text(call(&client).await), "done");
        assert_eq!(server.seen().len(), 4);

        // Another client of the same address knows it already.
        server.prepend(handshake("s2"));
        connect_with(&server, detecting()).await;
        assert_eq!(server.count("POST", "server/discover"), 1);
    }
}

#[tokio::test]
async fn what_says_nothing_about_the_era_is_an_error() {
    for status in [401, 403, 429, 500, 503] {
        let server = Scripted::start([on("POST", "server/discover").answer(status, "", "")]).await;
        let failed = Client::connect(Target::http(&server.url()).unwrap(), detecting()).await;
        match failed {
            Err(ConnectError::Auth { .. }) => assert_eq!(status, 401),
            Err(ConnectError::Failed { message, .. }) => {
                assert!(message.contains(&status.to_string()), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(server.seen().len(), 1, "{status}");
    }
}

/// A modern error is an answer of a modern server: asked once more, then given up; never `initialize`.
#[tokio::test]
async fn a_modern_error_means_modern() {
    let error = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}"#;
    let server = Scripted::start([on("POST", "server/discover").json(400, "", error), discovered()]).await;
    assert!(connect_with(&server, detecting()).await.peer().modern);
    let newer = error.replace("2026-07-28", "2031-01-01");
    let server = Scripted::start([on("POST", "server/discover").json(400, "", &newer)]).await;
    assert!(Client::connect(Target::http(&server.url()).unwrap(), detecting()).await.is_err());
    assert_eq!(server.seen().len(), 1);
}

/// 400, 404 or 405 to `initialize` too: the transport of 2024-11-05.
#[tokio::test]
async fn the_oldest_transport_is_the_last_resort() {
    for status in [400, 404, 405] {
        let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}}"#;
        let stream = on("GET", "")
            .stream()
            .raw("event: endpoint\ndata: /messages?id=7\n\n")
            .then(Act::Until("initialize"))
            .wait(100)
            .raw(format!("event: message\ndata: {hello}\n\n"))
            .then(Act::Until("tools/call"))
            .raw(format!("data: {}\n\n", RESULT.replace("$ID", "2")))
            .then(Act::Hold);
        let steps = [
            on("POST", "").when(|seen| seen.path == "/mcp").times(2).answer(status, "", ""),
            stream,
            on("POST", "").when(|seen| seen.path == "/messages?id=7").always().answer(202, "", "Accepted"),
        ];
        let server = Scripted::start(steps).await;
        let client = connect_with(&server, detecting()).await;
        assert_eq!(&*client.peer().revision, "2024-11-05");
        let result = tokio::time::timeout(bowline_testkit::PATIENCE, call(&client)).await;
        assert_eq!(text(result.expect("an answer")), "done");
        assert!(server.unexpected().is_empty());
    }
}

/// A modern server is replaced by one that only knows the handshake: the call that it refused is sent there.
#[tokio::test]
async fn a_server_may_become_an_older_one() {
    let no_session =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Mcp-Session-Id is missing"}}"#;
    let mut steps = vec![
        discovered(),
        on("POST", "tools/call")
            .when(|seen| seen.header("mcp-protocol-version") == "2026-07-28")
            .json(400, "", no_session),
        on("POST", "server/discover").json(400, "", no_session),
    ];
    steps.extend(with_session([call_done()]));
    let server = Scripted::start(steps).await;
    let client = connect_with(&server, detecting()).await;
    assert_eq!(text(call(&client).await), "done");
    assert!(!client.peer().modern);
    assert_eq!(server.count("POST", "tools/call"), 2);
}
