//! Logins, registrations and scopes against an authorization server in this process.

mod world;

use std::sync::Arc;

use bowline_oauth::{
    AuthMethod, Config, Error, Fetch, FetchError, Grant, Headless, MemoryStore, OAuth, Preregistered, Secret,
    Url,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use world::{Rules, world};

fn known(issuer: Option<&str>, secret: Option<&str>) -> Preregistered {
    Preregistered {
        id: "pre".into(),
        secret: secret.map(Secret::from),
        key: None,
        issuer: issuer.map(str::to_owned),
        method: None,
    }
}

#[tokio::test]
async fn the_whole_way_once_and_then_from_the_store() {
    let world = world(Rules::default()).await;
    let store = Arc::new(MemoryStore::new());
    let oauth = world.client_with(world.config(), store.clone());
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    let authorize = &world.requests("authorize")[0].fields;
    let token = &world.requests("token")[0].fields;
    assert_eq!((authorize["resource"].as_str(), authorize["scope"].as_str()), (world.mcp.as_str(), "read"));
    assert_eq!(
        (token["resource"].as_str(), authorize["code_challenge_method"].as_str()),
        (world.mcp.as_str(), "S256")
    );
    assert_eq!(token["client_id"], authorize["client_id"]);
    assert_eq!(world.requests("register").len(), 1);
    let status = oauth.status().await.unwrap();
    assert_eq!(
        (status.authorized, status.renewable, status.issuer.as_deref()),
        (true, true, Some(world.issuers[0].as_str()))
    );

    let again = world.client_with(world.config(), store.clone());
    assert_eq!(world.call(&again, "").await.unwrap(), StatusCode::OK);
    assert_eq!(
        (world.requests("authorize").len(), world.requests("mcp").len()),
        (1, 3),
        "the stored token went along at once"
    );

    again.logout().await.unwrap();
    assert!(!again.status().await.unwrap().authorized);
    let third = world.client_with(world.config(), store);
    assert_eq!(world.call(&third, "").await.unwrap(), StatusCode::OK);
    assert_eq!(
        (world.requests("authorize").len(), world.requests("register").len()),
        (2, 1),
        "the registration is kept"
    );
}

#[tokio::test]
async fn a_hundred_callers_and_one_login() {
    let world = world(Rules::default()).await;
    let oauth = world.client();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (world, oauth) = (Arc::clone(&world), oauth.clone());
        calls.spawn(async move { world.call(&oauth, "").await.unwrap() });
    }
    assert!(calls.join_all().await.into_iter().all(|status| status == StatusCode::OK));
    assert_eq!((world.requests("authorize").len(), world.requests("register").len()), (1, 1));
}

#[tokio::test]
async fn the_token_goes_to_no_other_origin() {
    let world = world(Rules::default()).await;
    let oauth = world.client();
    world.call(&oauth, "").await.unwrap();
    for other in [
        format!("{}/token", world.issuers[0]),
        "https://127.0.0.1/mcp".into(),
        world.mcp.replace("127.0.0.1", "localhost"),
    ] {
        let headers = oauth.headers_for(&Method::GET, &other.parse().unwrap()).await.unwrap();
        assert!(headers.is_empty(), "{other}");
    }
    let headers =
        oauth.headers_for(&Method::GET, &format!("{}/other", world.mcp).parse().unwrap()).await.unwrap();
    assert!(headers["authorization"].is_sensitive());
}

#[tokio::test]
async fn methods_of_the_token_endpoint() {
    for method in ["client_secret_basic", "client_secret_post", "none"] {
        let world = world(Rules { methods: vec![method], secret: Some("s3cret"), ..Rules::default() }).await;
        assert_eq!(world.call(&world.client(), "").await.unwrap(), StatusCode::OK);
        let seen = &world.requests("token")[0];
        assert_eq!(seen.headers.contains_key("authorization"), method == "client_secret_basic", "{method}");
        assert_eq!(seen.fields.contains_key("client_secret"), method == "client_secret_post", "{method}");
        assert_eq!(seen.fields.contains_key("client_id"), method != "client_secret_basic", "{method}");
    }
}

#[tokio::test]
async fn a_document_or_a_known_client_needs_no_registration() {
    let world = world(Rules { documents: true, ..Rules::default() }).await;
    let document = Some("https://client.example/doc.json".to_owned());
    let oauth = world.with_grant(Grant::Login { client: None, document: document.clone() });
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.requests("authorize")[0].fields["client_id"], "https://client.example/doc.json");

    let oauth =
        world.with_grant(Grant::Login { client: Some(known(Some(&world.issuers[0]), Some("x"))), document });
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.requests("authorize")[1].fields["client_id"], "pre");
    assert!(world.requests("register").is_empty());
}

#[tokio::test]
async fn a_known_client_stays_with_its_issuer() {
    let world = world(Rules::default()).await;
    let oauth = world
        .with_grant(Grant::Login { client: Some(known(Some("https://elsewhere"), None)), document: None });
    assert!(matches!(world.call(&oauth, "").await, Err(Error::ForeignClient { .. })));
    assert!(world.requests("authorize").is_empty());

    let unbound = world.with_grant(Grant::Login { client: Some(known(None, None)), document: None });
    assert_eq!(world.call(&unbound, "").await.unwrap(), StatusCode::OK);
    world.set(|rules| rules.second_issuer = true);
    world.revoke_access();
    assert!(matches!(world.call(&unbound, "").await, Err(Error::ForeignClient { .. })));
    assert_eq!(world.requests("authorize").len(), 1);
}

#[tokio::test]
async fn another_authorization_server_gets_nothing_of_the_first() {
    let world = world(Rules::default()).await;
    let oauth = world.client();
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    world.set(|rules| rules.second_issuer = true);
    world.revoke_access();
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.requests("register").len(), 2);
    assert!(world.grants("refresh_token").is_empty(), "the refresh token is the first server's");
    let ids: Vec<_> =
        world.requests("authorize").into_iter().map(|seen| seen.fields["client_id"].clone()).collect();
    assert!(ids[0].starts_with("client-0") && ids[1].starts_with("client-1"), "{ids:?}");
    assert_eq!(oauth.status().await.unwrap().issuer.as_deref(), Some(world.issuers[1].as_str()));
}

#[tokio::test]
async fn answers_that_come_from_elsewhere_are_not_used() {
    for (iss, announced) in
        [(Some("https://evil.example"), true), (Some("https://evil.example"), false), (None, true)]
    {
        let world = world(Rules { iss, iss_announced: announced, ..Rules::default() }).await;
        assert!(matches!(world.call(&world.client(), "").await, Err(Error::Response(_))), "{iss:?}");
        assert!(world.requests("token").is_empty(), "the code was sent nowhere");
    }
    let silent = world(Rules { iss: None, iss_announced: false, ..Rules::default() }).await;
    assert_eq!(silent.call(&silent.client(), "").await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn scopes_are_chosen_and_kept_in_a_step_up() {
    let world = world(Rules {
        challenge_scope: None,
        scopes_supported: Some(vec!["read", "list"]),
        ..Rules::default()
    })
    .await;
    let oauth = world.client();
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.call(&oauth, "?write").await.unwrap(), StatusCode::OK);
    let asked: Vec<_> =
        world.requests("authorize").into_iter().map(|seen| seen.fields["scope"].clone()).collect();
    assert_eq!(asked, ["read list", "read list write"]);
    assert_eq!(oauth.status().await.unwrap().scopes, ["read", "list", "write"]);
}

#[tokio::test]
async fn a_step_up_that_cannot_help_is_not_made() {
    // Asked for and not given.
    let world = world(Rules { granted: Some("read"), ..Rules::default() }).await;
    let oauth = world.client();
    for _ in 0..3 {
        let error = world.call(&oauth, "?write").await.unwrap_err();
        assert!(
            matches!(&error, Error::InsufficientScope { granted, .. } if granted == &["read"]),
            "{error}"
        );
    }
    assert_eq!(world.requests("authorize").len(), 2, "the login, and one step-up");
    // Given, and the server wants it all the same.
    world.set(|rules| rules.granted = Some("read other"));
    oauth.login().await.unwrap();
    world.set(|rules| rules.write_scope = "other");
    assert_eq!(world.call(&oauth, "?write").await.unwrap(), StatusCode::OK);
    world.set(|rules| rules.write_scope = "read other");
    let error = world.call(&oauth, "?write").await.unwrap_err();
    assert!(matches!(error, Error::InsufficientScope { .. }), "{error}");
    assert_eq!(world.requests("authorize").len(), 3);
}

#[tokio::test]
async fn a_server_that_refuses_every_token_is_left_alone() {
    let world = world(Rules { hopeless: true, refreshes: false, ..Rules::default() }).await;
    let oauth = world.client();
    assert!(matches!(world.call(&oauth, "").await, Err(Error::StillRefused { attempts: 3, .. })));
    assert_eq!(world.requests("authorize").len(), 3);
    assert!(matches!(world.call(&oauth, "").await, Err(Error::StillRefused { .. })));
    assert_eq!(world.requests("authorize").len(), 3, "no login while the failure counts");
}

#[tokio::test]
async fn offline_access_only_where_it_is_known() {
    let known = world(Rules { offline: true, ..Rules::default() }).await;
    assert_eq!(known.call(&known.client(), "").await.unwrap(), StatusCode::OK);
    let fields = &known.requests("authorize")[0].fields;
    assert_eq!((fields["scope"].as_str(), fields["prompt"].as_str()), ("read offline_access", "consent"));
    let body = &known.requests("register")[0].fields["body"];
    assert!(body.contains("refresh_token") && body.contains(r#""application_type":"native""#), "{body}");
    let unknown = world(Rules::default()).await;
    assert_eq!(unknown.call(&unknown.client(), "").await.unwrap(), StatusCode::OK);
    assert_eq!(unknown.requests("authorize")[0].fields["scope"], "read");
}

#[tokio::test]
async fn without_registration_the_error_says_what_to_do() {
    let world = world(Rules { registers: false, ..Rules::default() }).await;
    let error = world.call(&world.client(), "").await.unwrap_err();
    assert!(error.to_string().contains("configure its client id"), "{error}");
    assert_eq!(AuthMethod::None.name(), "none");
}

/// Where there is nothing but the MCP server.
struct Nothing;

impl Fetch for Nothing {
    fn fetch(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = StatusCode::NOT_FOUND;
        Box::pin(async { Ok(answer) })
    }
}

#[tokio::test]
async fn a_server_with_tokens_and_no_login_is_told_from_one_that_registers_nobody() {
    let server = "https://mcp.example.com/mcp";
    let prompt = Headless::new(Arc::new(Nothing), "http://127.0.0.1:1/callback");
    let config = Config::new(Url::parse(server).unwrap());
    let oauth =
        OAuth::new(config, Arc::new(Nothing), Arc::new(MemoryStore::new()), Arc::new(prompt)).unwrap();
    let uri = Uri::from_static("https://mcp.example.com/mcp");
    oauth.headers_for(&Method::POST, &uri).await.unwrap();
    let error = oauth.refused(&uri, StatusCode::UNAUTHORIZED, &HeaderMap::new()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(server) && text.contains("the token that you were given"), "{text}");
}
