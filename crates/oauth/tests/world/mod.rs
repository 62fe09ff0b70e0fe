//! An authorization server and an MCP server that is protected by it, in this process, with faults to choose from.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its part; servers of a test may end with it"
)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Form, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_oauth::{
    Config, CredentialStore, Error, Fetch, FetchLimits, Grant, Headless, HyperFetch, MemoryStore, OAuth, Url,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use jsonwebtoken::jwk::ThumbprintHash;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What the servers do.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) challenge_scope: Option<&'static str>,
    pub(crate) scopes_supported: Option<Vec<&'static str>>,
    /// Needed by `/mcp?write`.
    pub(crate) write_scope: &'static str,
    pub(crate) methods: Vec<&'static str>,
    pub(crate) registers: bool,
    pub(crate) secret: Option<&'static str>,
    pub(crate) documents: bool,
    pub(crate) offline: bool,
    pub(crate) lifetime: Option<u64>,
    pub(crate) refreshes: bool,
    pub(crate) iss: Option<&'static str>,
    pub(crate) iss_announced: bool,
    pub(crate) dpop: bool,
    pub(crate) nonces: bool,
    /// The MCP server refuses whatever it gets.
    pub(crate) hopeless: bool,
    /// The token endpoint is in trouble.
    pub(crate) token_down: bool,
    /// Error of every token request.
    pub(crate) token_error: Option<&'static str>,
    /// Which of the two issuers the MCP server names.
    pub(crate) second_issuer: bool,
    pub(crate) granted: Option<&'static str>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            challenge_scope: Some("read"),
            scopes_supported: None,
            write_scope: "write",
            methods: vec!["none"],
            registers: true,
            secret: None,
            documents: false,
            offline: false,
            lifetime: Some(3600),
            refreshes: true,
            iss: Some("same"),
            iss_announced: true,
            dpop: false,
            nonces: false,
            hopeless: false,
            token_down: false,
            token_error: None,
            second_issuer: false,
            granted: None,
        }
    }
}

/// A request that a server got.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) fields: HashMap<String, String>,
    pub(crate) headers: HeaderMap,
}

#[derive(Debug, Clone)]
struct Issued {
    scope: String,
    thumbprint: Option<String>,
}

pub(crate) struct World {
    pub(crate) rules: Mutex<Rules>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    tokens: Mutex<BTreeMap<String, Issued>>,
    refresh: Mutex<BTreeMap<String, Issued>>,
    codes: Mutex<BTreeMap<String, (String, String)>>,
    counter: AtomicUsize,
    pub(crate) mcp: String,
    pub(crate) issuers: [String; 2],
    pub(crate) fetch: Arc<HyperFetch>,
}

type App = State<(Arc<World>, usize)>;
type Fields = HashMap<String, String>;

pub(crate) async fn world(rules: Rules) -> Arc<World> {
    let bind = || async { tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap() };
    let (mcp, first, second) = (bind().await, bind().await, bind().await);
    let at = |listener: &tokio::net::TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let world = Arc::new(World {
        rules: Mutex::new(rules),
        seen: Mutex::default(),
        tokens: Mutex::default(),
        refresh: Mutex::default(),
        codes: Mutex::default(),
        counter: AtomicUsize::new(0),
        mcp: format!("{}/mcp", at(&mcp)),
        issuers: [at(&first), at(&second)],
        fetch: Arc::new(HyperFetch::new(FetchLimits::default()).unwrap()),
    });
    let resource = Router::new()
        .route("/mcp", get(mcp_endpoint).post(mcp_endpoint))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
        .with_state((Arc::clone(&world), 0));
    tokio::spawn(async move { axum::serve(mcp, resource).await });
    for (number, listener) in [first, second].into_iter().enumerate() {
        let app = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state((Arc::clone(&world), number));
        tokio::spawn(async move { axum::serve(listener, app).await });
    }
    world
}

async fn resource_metadata(State((world, _)): App, headers: HeaderMap) -> Json<Value> {
    world.saw("prm", HashMap::new(), &headers);
    let rules = world.rules.lock();
    let mut document = json!({
        "resource": world.mcp,
        "authorization_servers": [world.issuers[usize::from(rules.second_issuer)]],
    });
    if let Some(scopes) = &rules.scopes_supported {
        document["scopes_supported"] = json!(scopes);
    }
    Json(document)
}

async fn metadata(State((world, number)): App, headers: HeaderMap) -> Json<Value> {
    world.saw("metadata", HashMap::new(), &headers);
    let rules = world.rules.lock();
    let issuer = &world.issuers[number];
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": rules.methods,
        "authorization_response_iss_parameter_supported": rules.iss_announced,
        "client_id_metadata_document_supported": rules.documents,
    });
    if rules.registers {
        document["registration_endpoint"] = json!(format!("{issuer}/register"));
    }
    if rules.offline {
        document["scopes_supported"] = json!(["read", "offline_access"]);
    }
    if rules.dpop {
        document["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    }
    Json(document)
}

async fn register(State((world, number)): App, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    world.saw("register", [("body".to_owned(), body.to_string())].into(), &headers);
    let mut answer = json!({"client_id": format!("client-{number}-{}", world.next()), "redirect_uris": body["redirect_uris"]});
    let rules = world.rules.lock();
    if let Some(secret) = rules.secret {
        answer["client_secret"] = secret.into();
        answer["token_endpoint_auth_method"] = rules.methods[0].into();
    }
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn authorize(
    State((world, number)): App,
    headers: HeaderMap,
    Query(fields): Query<Fields>,
) -> Redirect {
    world.saw("authorize", fields.clone(), &headers);
    let code = format!("code-{}", world.next());
    let scope = fields.get("scope").cloned().unwrap_or_default();
    world.codes.lock().insert(code.clone(), (fields["code_challenge"].clone(), scope));
    let mut back = Url::parse(&fields["redirect_uri"]).unwrap();
    back.query_pairs_mut().append_pair("code", &code).append_pair("state", &fields["state"]);
    let rules = world.rules.lock();
    match rules.iss {
        Some("same") => drop(back.query_pairs_mut().append_pair("iss", &world.issuers[number])),
        Some(other) => drop(back.query_pairs_mut().append_pair("iss", other)),
        None => {}
    }
    Redirect::to(back.as_str())
}

fn refuse(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error, "error_description": "as the test wants it"})))
        .into_response()
}

async fn token(State((world, _)): App, headers: HeaderMap, Form(fields): Form<Fields>) -> Response {
    world.saw("token", fields.clone(), &headers);
    let rules = world.rules.lock().clone();
    if rules.token_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if let Some(error) = rules.token_error {
        return refuse(error);
    }
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let thumbprint = match headers.get("dpop") {
        Some(proof) => {
            let (thumbprint, nonce) = check_proof(proof.to_str().unwrap(), &Method::POST, "/token", None);
            if rules.nonces && nonce.as_deref() != Some("as-nonce") {
                return ([("dpop-nonce", "as-nonce")], refuse("use_dpop_nonce")).into_response();
            }
            Some(thumbprint)
        }
        None => None,
    };
    let scope = match field("grant_type").as_str() {
        "authorization_code" => {
            let Some((challenge, scope)) = world.codes.lock().remove(&field("code")) else {
                return refuse("invalid_grant");
            };
            let verifier = URL_SAFE_NO_PAD.encode(digest(&SHA256, field("code_verifier").as_bytes()));
            if verifier != challenge {
                return refuse("invalid_grant");
            }
            scope
        }
        "refresh_token" => {
            let Some(issued) = world.refresh.lock().remove(&field("refresh_token")) else {
                return refuse("invalid_grant");
            };
            if issued.thumbprint != thumbprint {
                return refuse("invalid_dpop_proof");
            }
            issued.scope
        }
        "urn:ietf:params:oauth:grant-type:token-exchange" => {
            return Json(
                json!({"access_token": format!("jag-for-{}", field("audience")), "token_type": "N_A",
                "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}),
            )
            .into_response();
        }
        _ => field("scope"),
    };
    let issued = Issued { scope: rules.granted.map_or(scope, str::to_owned), thumbprint: thumbprint.clone() };
    let access = format!("access-{}", world.next());
    world.tokens.lock().insert(access.clone(), issued.clone());
    let kind = if thumbprint.is_some() { "DPoP" } else { "Bearer" };
    let mut answer = json!({"access_token": access, "token_type": kind, "scope": issued.scope});
    if let Some(lifetime) = rules.lifetime {
        answer["expires_in"] = lifetime.into();
    }
    if rules.refreshes {
        let refresh = format!("refresh-{}", world.next());
        world.refresh.lock().insert(refresh.clone(), issued);
        answer["refresh_token"] = refresh.into();
    }
    Json(answer).into_response()
}

/// Checks a proof as a server does; returns the thumbprint of its key and its nonce.
fn check_proof(proof: &str, method: &Method, path: &str, access: Option<&str>) -> (String, Option<String>) {
    let header = decode_header(proof).unwrap();
    assert_eq!(header.typ.as_deref(), Some("dpop+jwt"));
    let key = header.jwk.unwrap();
    let mut validation = Validation::new(Algorithm::ES256);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    let claims = decode::<Value>(proof, &DecodingKey::from_jwk(&key).unwrap(), &validation).unwrap().claims;
    assert_eq!(claims["htm"], method.as_str());
    assert!(claims["htu"].as_str().unwrap().ends_with(path), "{claims}");
    let hash = access.map(|access| URL_SAFE_NO_PAD.encode(digest(&SHA256, access.as_bytes())));
    assert_eq!(claims["ath"].as_str(), hash.as_deref());
    (key.thumbprint(ThumbprintHash::SHA256).unwrap(), claims["nonce"].as_str().map(str::to_owned))
}

async fn mcp_endpoint(State((world, _)): App, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    world.saw("mcp", HashMap::new(), &headers);
    let rules = world.rules.lock().clone();
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", world.mcp.trim_end_matches("/mcp"));
    let scheme = if rules.dpop { "DPoP" } else { "Bearer" };
    let scope = rules.challenge_scope.map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
    let refused = |error: &str| {
        let value = format!("Basic realm=\"x\", {scheme} resource_metadata=\"{metadata}\"{scope}{error}");
        (StatusCode::UNAUTHORIZED, [("www-authenticate", value)]).into_response()
    };
    let sent = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '));
    let Some((kind, access)) = sent else { return refused("") };
    let issued = world.tokens.lock().get(access).cloned();
    let Some(issued) = issued.filter(|_| !rules.hopeless) else {
        return refused(", error=\"invalid_token\"");
    };
    assert_eq!(kind, if issued.thumbprint.is_some() { "DPoP" } else { "Bearer" });
    if let Some(thumbprint) = issued.thumbprint {
        let (key, nonce) = check_proof(headers["dpop"].to_str().unwrap(), &method, "/mcp", Some(access));
        assert_eq!(key, thumbprint);
        if rules.nonces && nonce.as_deref() != Some("rs-nonce") {
            return ([("dpop-nonce", "rs-nonce")], refused(", error=\"use_dpop_nonce\"")).into_response();
        }
    }
    if uri.query() == Some("write") && !issued.scope.split(' ').any(|scope| scope == rules.write_scope) {
        let value = format!(
            "Bearer error=\"insufficient_scope\", scope=\"{}\", resource_metadata=\"{metadata}\"",
            rules.write_scope
        );
        return (StatusCode::FORBIDDEN, [("www-authenticate", value)]).into_response();
    }
    StatusCode::OK.into_response()
}

impl World {
    fn next(&self) -> usize {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    fn saw(&self, path: &str, fields: Fields, headers: &HeaderMap) {
        self.seen.lock().push(Seen { path: path.to_owned(), fields, headers: headers.clone() });
    }

    /// The requests to one of the endpoints.
    pub(crate) fn requests(&self, path: &str) -> Vec<Seen> {
        self.seen.lock().iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// The token requests of one grant.
    pub(crate) fn grants(&self, grant: &str) -> Vec<Seen> {
        self.requests("token").into_iter().filter(|seen| seen.fields["grant_type"] == grant).collect()
    }

    /// All access tokens are void.
    pub(crate) fn revoke_access(&self) {
        self.tokens.lock().clear();
    }

    /// All refresh tokens are void.
    pub(crate) fn revoke_refresh(&self) {
        self.refresh.lock().clear();
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.lock());
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(Url::parse(&self.mcp).unwrap());
        config.clock = clock;
        config
    }

    pub(crate) fn client_with(&self, config: Config, store: Arc<dyn CredentialStore>) -> OAuth {
        let prompt = Headless::new(Arc::clone(&self.fetch) as Arc<dyn Fetch>, "http://127.0.0.1:1/callback");
        OAuth::new(config, Arc::clone(&self.fetch) as Arc<dyn Fetch>, store, Arc::new(prompt)).unwrap()
    }

    pub(crate) fn client(&self) -> OAuth {
        self.client_with(self.config(), Arc::new(MemoryStore::new()))
    }

    pub(crate) fn with_grant(&self, grant: Grant) -> OAuth {
        let mut config = self.config();
        config.grant = grant;
        self.client_with(config, Arc::new(MemoryStore::new()))
    }

    /// One request as a client sends it: again as long as the authorization says so.
    pub(crate) async fn call(&self, oauth: &OAuth, query: &str) -> Result<StatusCode, Error> {
        let uri: Uri = format!("{}{query}", self.mcp).parse().unwrap();
        for _ in 0..20 {
            let mut request = Request::post(uri.clone()).body(Bytes::new()).unwrap();
            request.headers_mut().extend(oauth.headers_for(&Method::POST, &uri).await?);
            let answer = self.fetch.fetch(request).await.unwrap();
            let refused = matches!(answer.status().as_u16(), 401 | 403);
            if !refused || !oauth.refused(&uri, answer.status(), answer.headers()).await? {
                return Ok(answer.status());
            }
        }
        panic!("it never ends");
    }
}

static NOW: AtomicU64 = AtomicU64::new(1_000_000);

/// The time of all tests in this process: nextest gives each its own.
pub(crate) fn clock() -> u64 {
    NOW.load(Ordering::Relaxed)
}

pub(crate) fn pass(seconds: u64) {
    NOW.fetch_add(seconds, Ordering::Relaxed);
}
