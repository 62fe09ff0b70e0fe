//! Who is calling: headers on every request, challenges, and what they mean for a call.

use crate::{eras::discovered, kit::*};
use bowline_client::{
    AuthAnswer, AuthError, AuthRequest, Authorizer, CallError, Client, ConnectError, Era, StaticHeaders,
    Target,
};
use bowline_testkit::scripted::{Scripted, on};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A token that is another one after each challenge, for so many of them.
struct Renewing {
    challenges: Arc<AtomicUsize>,
    most: usize,
}

impl Authorizer for Renewing {
    fn headers<'a>(&'a self, request: AuthRequest<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthError>> {
        assert_eq!(request.url.path(), "/mcp");
        let token = format!("Bearer t{}", self.challenges.load(Ordering::Relaxed));
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&token).unwrap())]);
        Box::pin(async { Ok(headers) })
    }

    fn challenged<'a>(
        &'a self,
        _: AuthRequest<'a>,
        answer: AuthAnswer<'a>,
    ) -> BoxFuture<'a, Result<bool, AuthError>> {
        assert!(answer.headers.contains_key("www-authenticate"));
        let seen = self.challenges.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(async move { Ok(seen <= self.most) })
    }
}

#[tokio::test]
async fn static_headers_go_with_every_request_and_are_not_shown() {
    let steps = [call_done(), on("DELETE", "").answer(204, "", "")];
    let server = Scripted::start(with_session(steps)).await;
    let authorizer = StaticHeaders::bearer("s3cret")
        .unwrap()
        .with("x-key".parse().unwrap(), HeaderValue::from_static("k"));
    assert!(!format!("{authorizer:?}").contains("s3cret"));
    let mut options = options().authorizer(authorizer);
    // What the protocol owns is not replaced.
    options.headers.insert("accept", HeaderValue::from_static("text/html"));
    options.headers.insert("x-own", HeaderValue::from_static("o"));
    let client = connect_with(&server, options).await;
    assert_eq!(text(call(&client).await), "done");
    client.close().await;
    for seen in server.seen() {
        assert_eq!(seen.header("authorization"), "Bearer s3cret");
        assert_eq!((seen.header("x-key"), seen.header("x-own")), ("k", "o"));
        assert!(
            seen.header("accept").contains("application/json")
                && seen.header("accept").contains("text/event-stream")
        );
    }
    assert!(StaticHeaders::bearer("a\nb").is_err());
}

/// A challenge is answered, and the request, which did not run, sent again: a call too.
#[tokio::test]
async fn a_challenged_call_is_sent_again_with_other_credentials() {
    let refused = on("POST", "tools/call").when(|seen| seen.header("authorization") == "Bearer t0").answer(
        401,
        "www-authenticate: Bearer\r\n",
        "",
    );
    let server = Scripted::start(with_session([refused, call_done()])).await;
    let challenges = Arc::new(AtomicUsize::new(0));
    let authorizer = Renewing { challenges: Arc::clone(&challenges), most: 1 };
    let client = connect_with(&server, options().authorizer(authorizer)).await;
    assert_eq!(text(call(&client).await), "done");
    assert_eq!(challenges.load(Ordering::Relaxed), 1);
    assert_eq!(server.of("POST", "tools/call")[1].header("authorization"), "Bearer t1");
    assert_eq!(server.count("POST", "initialize"), 1, "401 never ends a session");
}

/// Where there are no better credentials it is an error of its own kind, at once; and an authorizer that never gives up is stopped.
#[tokio::test]
async fn refused_credentials_are_an_error_of_their_own() {
    for (most, requests) in [(0, 1), (usize::MAX, 9)] {
        let refused = on("POST", "tools/call").always().answer(401, "www-authenticate: Bearer\r\n", "");
        let server = Scripted::start(with_session([refused])).await;
        let authorizer = Renewing { challenges: Arc::default(), most };
        let client = connect_with(&server, options().authorizer(authorizer)).await;
        let result = call(&client).await;
        let Err(error @ CallError::Auth(_)) = result else { panic!("{result:?}") };
        assert!(!error.may_have_run());
        assert_eq!(server.count("POST", "tools/call"), requests);
    }
    let server = Scripted::start([on("POST", "initialize").answer(401, "", "")]).await;
    let refused = Client::connect(Target::http(&server.url()).unwrap(), options()).await;
    assert!(matches!(refused, Err(ConnectError::Auth { .. })), "{refused:?}");
    assert_eq!(server.seen().len(), 1);
}

/// Somebody else may be logged in after a challenge: what is private is asked for again, what is public is not.
#[tokio::test]
async fn private_lists_do_not_outlive_a_login() {
    let list = |name: &str, scope: &str| {
        format!(r#"{{"resultType":"complete","{name}":[],"ttlMs":60000,"cacheScope":"{scope}"}}"#)
    };
    let server = Scripted::start([
        discovered(),
        on("POST", "tools/list").always().result(&list("tools", "public")),
        on("POST", "prompts/list").always().result(&list("prompts", "private")),
        on("POST", "tools/call").answer(401, "www-authenticate: Bearer\r\n", ""),
        call_done(),
    ])
    .await;
    let authorizer = Renewing { challenges: Arc::default(), most: 1 };
    let client = connect_with(&server, options().era(Era::Modern).authorizer(authorizer)).await;
    for _ in 0..2 {
        client.list_tools().await.unwrap();
        client.list_prompts().await.unwrap();
    }
    assert_eq!((server.count("POST", "tools/list"), server.count("POST", "prompts/list")), (1, 1));
    assert_eq!(text(call(&client).await), "done");
    client.list_tools().await.unwrap();
    client.list_prompts().await.unwrap();
    assert_eq!((server.count("POST", "tools/list"), server.count("POST", "prompts/list")), (1, 2));
}

/// HTTPS without a provider of cryptography is refused with what to do; nothing is chosen for the program.
#[tokio::test]
async fn https_needs_a_provider() {
    let refused = Client::connect(Target::http("https://127.0.0.1:1/mcp").unwrap(), options()).await;
    let Err(ConnectError::BadUrl { message, .. }) = refused else { panic!("{refused:?}") };
    assert!(message.contains("install_default"), "{message}");
}

/// L2: the first connection has limits of its own.
#[tokio::test]
async fn connecting_is_limited_and_an_absent_server_is_told_at_once_or_waited_for() {
    let server = Scripted::start([on("POST", "initialize").then(bowline_testkit::scripted::Act::Hold)]).await;
    let mut limited = options();
    limited.connect_timeout = std::time::Duration::from_millis(200);
    let (late, time) = timed(Client::connect(Target::http(&server.url()).unwrap(), limited)).await;
    assert!(matches!(late, Err(ConnectError::Timeout { .. })), "{late:?}");
    assert!(time < AT_ONCE, "{time:?}");

    server.down();
    let (absent, time) = timed(Client::connect(Target::http(&server.url()).unwrap(), options())).await;
    assert!(matches!(absent, Err(ConnectError::Failed { .. })), "{absent:?}");
    assert!(time < AT_ONCE, "{time:?}");

    let mut patient = options();
    patient.connect_outage = std::time::Duration::from_secs(5);
    server.prepend(handshake(""));
    let (connected, ()) =
        tokio::join!(Client::connect(Target::http(&server.url()).unwrap(), patient), async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            server.up().await;
        });
    connected.unwrap();
}
