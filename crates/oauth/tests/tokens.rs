//! Renewal, proofs, and grants without a person, against an authorization server in this process.

mod world;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_oauth::{
    AssertionFile, ClientKey, CredentialStore, Credentials, Error, Fetch, FetchError, FetchLimits, FileStore,
    FixedAssertion, Grant, HyperFetch, ID_TOKEN, IdentityProvider, Lock, MemoryStore, Preregistered, Secret,
    StoreError,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode};
use serde_json::Value;
use world::{Rules, World, clock, pass, world};

async fn all_at_once(world: &Arc<World>, oauth: &bowline_oauth::OAuth, callers: usize) {
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (world, oauth) = (Arc::clone(world), oauth.clone());
        calls.spawn(async move { world.call(&oauth, "").await });
    }
    assert!(calls.join_all().await.into_iter().all(|outcome| matches!(outcome, Ok(StatusCode::OK))));
}

#[tokio::test]
async fn a_hundred_callers_with_a_void_token_and_one_refresh() {
    let world = world(Rules::default()).await;
    let oauth = world.client();
    world.call(&oauth, "").await.unwrap();
    world.revoke_access();
    all_at_once(&world, &oauth, 100).await;
    assert_eq!((world.grants("refresh_token").len(), world.requests("authorize").len()), (1, 1));
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let world = world(Rules { lifetime: Some(1000), ..Rules::default() }).await;
    let oauth = world.client();
    world.call(&oauth, "").await.unwrap();
    pass(969);
    world.call(&oauth, "").await.unwrap();
    assert!(world.grants("refresh_token").is_empty());
    pass(1);
    all_at_once(&world, &oauth, 100).await;
    let refreshes = world.grants("refresh_token");
    assert_eq!(refreshes.len(), 1);
    assert_eq!(refreshes[0].fields["resource"], world.mcp);
    let refused =
        world.requests("mcp").iter().filter(|seen| !seen.headers.contains_key("authorization")).count();
    assert_eq!(refused, 1, "only the very first request had no token");
}

#[tokio::test]
async fn a_refresh_that_is_refused_ends_in_a_login() {
    let world = world(Rules { lifetime: Some(100), ..Rules::default() }).await;
    let oauth = world.client();
    world.call(&oauth, "").await.unwrap();
    world.revoke_access();
    world.revoke_refresh();
    world.call(&oauth, "").await.unwrap();
    assert_eq!((world.grants("refresh_token").len(), world.requests("authorize").len()), (1, 2));
    // The same when it has ended: the refusal comes from the MCP server, and a person is asked once.
    pass(200);
    world.revoke_access();
    world.revoke_refresh();
    all_at_once(&world, &oauth, 10).await;
    assert_eq!((world.grants("refresh_token").len(), world.requests("authorize").len()), (2, 3));
}

#[tokio::test]
async fn an_authorization_server_in_trouble_costs_no_login() {
    let world = world(Rules { lifetime: Some(100), ..Rules::default() }).await;
    let oauth = world.client();
    world.call(&oauth, "").await.unwrap();
    world.set(|rules| rules.token_down = true);
    pass(80);
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK, "the token still serves");
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.grants("refresh_token").len(), 1, "it is not asked again at once");
    pass(30);
    let error = world.call(&oauth, "").await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("503"), "{error}");
    world.set(|rules| rules.token_down = false);
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.requests("authorize").len(), 1, "the refresh token was kept");
}

/// A store whose disk is full.
#[derive(Debug, Default)]
struct Full(MemoryStore);

impl CredentialStore for Full {
    fn issuer_for<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        self.0.issuer_for(server)
    }

    fn load<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Credentials, StoreError>> {
        self.0.load(issuer)
    }

    fn save<'a>(&'a self, _: &'a str, _: &'a str, _: Credentials) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::File { path: "x".into(), reason: "disk full".into() }) })
    }

    fn lock<'a>(&'a self, issuer: &'a str, wait: Duration) -> BoxFuture<'a, Result<Lock, StoreError>> {
        self.0.lock(issuer, wait)
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_stored_serves_all_the_same() {
    let world = world(Rules { documents: true, ..Rules::default() }).await;
    let mut config = world.config();
    config.grant = Grant::Login { client: None, document: Some("https://client.example/doc.json".into()) };
    let oauth = world.client_with(config, Arc::new(Full::default()));
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.requests("authorize").len(), 1);
}

#[tokio::test]
async fn processes_share_logins_and_refreshes() {
    let world = world(Rules::default()).await;
    let directory =
        std::env::temp_dir().join(format!("bowline-oauth-{}", Secret::random().unwrap().expose()));
    let process = || world.client_with(world.config(), Arc::new(FileStore::new(directory.join("c.json"))));
    let (one, two) = (process(), process());
    let (first, second) = tokio::join!(world.call(&one, ""), world.call(&two, ""));
    assert_eq!((first.unwrap(), second.unwrap()), (StatusCode::OK, StatusCode::OK));
    assert_eq!((world.requests("authorize").len(), world.requests("register").len()), (1, 1));
    world.revoke_access();
    let (first, second) = tokio::join!(world.call(&one, ""), world.call(&two, ""));
    assert_eq!((first.unwrap(), second.unwrap()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(world.grants("refresh_token").len(), 1, "the second found the token of the first");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn proofs_with_nonces_of_both_servers() {
    let world = world(Rules { dpop: true, nonces: true, ..Rules::default() }).await;
    let store = Arc::new(MemoryStore::new());
    let oauth = world.client_with(world.config(), store.clone());
    all_at_once(&world, &oauth, 20).await;
    assert_eq!(world.grants("authorization_code").len(), 2, "once without the nonce, once with it");
    assert!(world.requests("authorize")[0].fields.contains_key("dpop_jkt"));
    let proofs: std::collections::BTreeSet<_> = world
        .requests("mcp")
        .iter()
        .filter_map(|seen| seen.headers.get("dpop").map(|value| value.as_bytes().to_vec()))
        .collect();
    let presented = world.requests("mcp").iter().filter(|seen| seen.headers.contains_key("dpop")).count();
    assert_eq!(proofs.len(), presented, "no proof was sent twice");
    // The key goes with the refresh token, into another process too.
    world.revoke_access();
    let again = world.client_with(world.config(), store);
    assert_eq!(world.call(&again, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.grants("refresh_token").last().unwrap().fields["grant_type"], "refresh_token");
    assert_eq!(world.requests("authorize").len(), 1);
}

#[tokio::test]
async fn no_proofs_where_only_one_side_knows_them() {
    let world = world(Rules { dpop: true, ..Rules::default() }).await;
    let mut config = world.config();
    config.dpop = false;
    let oauth = world.client_with(config, Arc::new(MemoryStore::new()));
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert!(!world.requests("token")[0].headers.contains_key("dpop"));
}

fn machine(key: Option<ClientKey>) -> Preregistered {
    let secret = key.is_none().then(|| Secret::new("s"));
    Preregistered { id: "machine".into(), secret, key, issuer: None, method: None }
}

#[tokio::test]
async fn client_credentials_with_a_secret_and_with_a_key() {
    let world = world(Rules {
        methods: vec!["client_secret_basic"],
        refreshes: false,
        lifetime: Some(100),
        ..Rules::default()
    })
    .await;
    let oauth = world.with_grant(Grant::ClientCredentials(machine(None)));
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    let seen = &world.grants("client_credentials")[0];
    assert_eq!(
        (seen.fields["scope"].as_str(), seen.fields["resource"].as_str()),
        ("read", world.mcp.as_str())
    );
    assert!(seen.headers["authorization"].to_str().unwrap().starts_with("Basic "));
    pass(90);
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.grants("client_credentials").len(), 2, "renewed before it ended, without a refusal");
    assert_eq!(world.call(&oauth, "?write").await.unwrap(), StatusCode::OK);
    assert_eq!(world.grants("client_credentials")[2].fields["scope"], "read write");

    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let key = ClientKey::from_pem(&pem.into(), "ES256", Some("k1".into())).unwrap();
    let oauth = world.with_grant(Grant::ClientCredentials(machine(Some(key))));
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    let seen = world.grants("client_credentials").pop().unwrap();
    assert_eq!(
        seen.fields["client_assertion_type"],
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    );
    assert!(!seen.fields.contains_key("client_id") && !seen.headers.contains_key("authorization"));
    let public = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref()).unwrap();
    let mut checks = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::ES256);
    checks.set_audience(&[&world.issuers[0]]);
    checks.validate_exp = false;
    let decoding = jsonwebtoken::DecodingKey::from_ec_der(public.public_key().as_ref());
    let token = jsonwebtoken::decode::<Value>(&seen.fields["client_assertion"], &decoding, &checks).unwrap();
    assert_eq!(
        (&token.claims["iss"], &token.claims["sub"], token.header.kid.as_deref()),
        (&"machine".into(), &"machine".into(), Some("k1"))
    );
    assert_eq!(token.claims["exp"].as_u64().unwrap(), clock() + 300);
}

#[tokio::test]
async fn a_workload_shows_its_token_and_does_not_insist() {
    let world = world(Rules { registers: false, ..Rules::default() }).await;
    let file = std::env::temp_dir().join(format!("bowline-oauth-{}", Secret::random().unwrap().expose()));
    std::fs::write(&file, "platform-token\n").unwrap();
    let grant =
        || Grant::Workload { client_id: Some("w".into()), assertion: Arc::new(AssertionFile(file.clone())) };
    assert_eq!(world.call(&world.with_grant(grant()), "").await.unwrap(), StatusCode::OK);
    let seen = &world.requests("token")[0].fields;
    assert_eq!(
        (seen["grant_type"].as_str(), seen["assertion"].as_str()),
        ("urn:ietf:params:oauth:grant-type:jwt-bearer", "platform-token")
    );

    world.set(|rules| rules.token_error = Some("unauthorized_client"));
    let refused = world.with_grant(grant());
    for _ in 0..3 {
        let error = world.call(&refused, "").await.unwrap_err();
        assert!(matches!(&error, Error::Refused { error, .. } if error == "unauthorized_client"), "{error}");
    }
    assert_eq!(world.requests("token").len(), 2, "one for the first client, one for the second");
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn an_identity_provider_vouches() {
    let world = world(Rules { methods: vec!["client_secret_basic"], ..Rules::default() }).await;
    let provider = IdentityProvider {
        issuer: world.issuers[1].clone(),
        token_endpoint: None,
        client_id: "at-idp".into(),
        client_secret: None,
        subject: Arc::new(FixedAssertion("id-token".into())),
        subject_kind: ID_TOKEN.into(),
    };
    let oauth = world.with_grant(Grant::Enterprise { client: machine(None), provider });
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    let exchange = &world.grants("urn:ietf:params:oauth:grant-type:token-exchange")[0].fields;
    assert_eq!(exchange["requested_token_type"], "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(
        (exchange["audience"].as_str(), exchange["resource"].as_str()),
        (world.issuers[0].as_str(), world.mcp.as_str())
    );
    assert_eq!((exchange["subject_token"].as_str(), exchange["client_id"].as_str()), ("id-token", "at-idp"));
    let bearer = &world.grants("urn:ietf:params:oauth:grant-type:jwt-bearer")[0];
    assert_eq!(bearer.fields["assertion"], format!("jag-for-{}", world.issuers[0]));
    assert!(bearer.headers["authorization"].to_str().unwrap().starts_with("Basic "));
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_end_the_login() {
    let world = world(Rules::default()).await;
    let oauth = world.client();
    let call = tokio::time::timeout(Duration::ZERO, async {
        let uri = world.mcp.parse().unwrap();
        let mut headers = http::HeaderMap::new();
        headers.insert("www-authenticate", http::HeaderValue::from_static("Bearer"));
        oauth.refused(&uri, StatusCode::UNAUTHORIZED, &headers).await
    });
    assert!(call.await.is_err(), "it gave up at once");
    // The next request waits for the attempt that goes on, and starts none.
    assert_eq!(world.call(&oauth, "").await.unwrap(), StatusCode::OK);
    assert_eq!(world.requests("authorize").len(), 1);
}

#[tokio::test]
async fn fetching_is_bounded() {
    let app = axum::Router::new()
        .route("/large", axum::routing::get(|| async { vec![b'x'; 5000] }))
        .route("/moved", axum::routing::get(|| async { axum::response::Redirect::to("/large") }))
        .route("/never", axum::routing::get(std::future::pending::<()>));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let limits = FetchLimits { body: 4999, total: Duration::from_secs(1), ..FetchLimits::default() };
    let fetch = HyperFetch::new(limits).unwrap();
    let get = |path: &str| fetch.fetch(Request::get(format!("{at}{path}")).body(Bytes::new()).unwrap());
    assert!(matches!(get("/large").await, Err(FetchError::TooLarge(4999))));
    assert_eq!(get("/moved").await.unwrap().status(), StatusCode::SEE_OTHER);
    assert!(matches!(get("/never").await, Err(FetchError::TimedOut(_))));
    let closed = fetch.fetch(Request::get("http://127.0.0.1:1/").body(Bytes::new()).unwrap()).await;
    assert!(matches!(closed, Err(FetchError::Unreachable(_))), "{closed:?}");
}
