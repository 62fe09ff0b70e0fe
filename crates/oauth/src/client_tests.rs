use super::*;

fn server(methods: Option<&[&str]>) -> AuthorizationServer {
    AuthorizationServer {
        issuer: "https://as".into(),
        registration_endpoint: Some("https://as/register".into()),
        token_endpoint_auth_methods_supported: methods.map(|m| m.iter().map(|s| (*s).to_owned()).collect()),
        ..AuthorizationServer::default()
    }
}

fn known(secret: Option<&str>, issuer: Option<&str>) -> Preregistered {
    Preregistered {
        id: "pre".into(),
        secret: secret.map(Secret::from),
        key: None,
        issuer: issuer.map(str::to_owned),
        method: None,
    }
}

fn stored(redirect: &str, end: Option<u64>) -> Client {
    Client {
        id: "dyn".into(),
        secret: None,
        method: AuthMethod::None,
        redirect_uri: Some(redirect.into()),
        secret_expires_at: end,
    }
}

#[test]
fn the_order_of_identities() {
    let mut with_documents = server(None);
    with_documents.client_id_metadata_document_supported = true;
    let plain = server(None);
    let mut closed = server(None);
    closed.registration_endpoint = None;
    let id = |choice: Result<Choice, Error>| match choice {
        Ok(Choice::Use(client)) => client.id,
        Ok(Choice::Register(_)) => "register".into(),
        Err(_) => "error".into(),
    };
    let (document, old) = (Some("https://c/doc"), stored("r", None));
    assert_eq!(
        id(choose(Some(&known(None, None)), document, Some(&old), &with_documents, Some("r"), 0)),
        "pre"
    );
    assert_eq!(id(choose(None, document, Some(&old), &with_documents, Some("r"), 0)), "https://c/doc");
    assert_eq!(id(choose(None, document, Some(&old), &plain, Some("r"), 0)), "dyn");
    assert_eq!(id(choose(None, document, Some(&old), &plain, None, 0)), "dyn");
    assert_eq!(id(choose(None, document, Some(&old), &plain, Some("other"), 0)), "register");
    assert_eq!(id(choose(None, None, Some(&stored("r", Some(5))), &plain, Some("r"), 5)), "register");
    assert_eq!(id(choose(None, None, None, &plain, Some("r"), 0)), "register");
    assert_eq!(id(choose(None, document, None, &closed, Some("r"), 0)), "error");
    assert_eq!(id(choose(Some(&known(None, Some("https://as"))), None, None, &plain, Some("r"), 0)), "pre");
    let foreign = choose(Some(&known(None, Some("https://other"))), None, None, &plain, Some("r"), 0);
    assert!(matches!(foreign, Err(Error::ForeignClient { .. })), "{foreign:?}");
}

#[test]
fn the_method_is_one_of_the_servers() {
    let table: &[(bool, Option<&[&str]>, AuthMethod)] = &[
        (true, None, AuthMethod::ClientSecretBasic),
        (true, Some(&["client_secret_post"]), AuthMethod::ClientSecretPost),
        (true, Some(&["client_secret_post", "client_secret_basic"]), AuthMethod::ClientSecretBasic),
        (false, Some(&["client_secret_post"]), AuthMethod::None),
    ];
    for (secret, methods, expected) in table {
        assert_eq!(method_for(*secret, false, &server(*methods)), *expected, "{methods:?}");
    }
    assert_eq!(method_to_register(&server(Some(&["client_secret_post"]))), AuthMethod::ClientSecretPost);
    assert_eq!(method_to_register(&server(Some(&["client_secret_basic", "none"]))), AuthMethod::None);
    assert_eq!(method_to_register(&server(None)), AuthMethod::None);
}

#[test]
fn answers_to_a_registration() {
    let read = |body: &str, methods: &[&str]| registered(body.as_bytes(), "r", &server(Some(methods)));
    let client = read(r#"{"client_id":"x","client_secret":"s"}"#, &["none"]).unwrap();
    assert_eq!((client.method, client.secret), (AuthMethod::None, None));
    let client = read(
        r#"{"client_id":"x","client_secret":"s","client_secret_expires_at":0}"#,
        &["client_secret_post"],
    )
    .unwrap();
    assert_eq!((client.method, client.secret_expires_at), (AuthMethod::ClientSecretPost, None));
    let client = read(
        r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"client_secret_basic"}"#,
        &["none"],
    )
    .unwrap();
    assert_eq!(client.method, AuthMethod::ClientSecretBasic);
    assert!(read(r#"{"client_id":"x","token_endpoint_auth_method":"tls_client_auth"}"#, &["none"]).is_err());
    assert!(read("<html>", &["none"]).is_err());
}

#[test]
fn proofs_of_identity() {
    let mut client = stored("r", None);
    client.secret = Some("a:b c".into());
    client.method = AuthMethod::ClientSecretBasic;
    let proof = client.prove(None, "https://as", 0).unwrap();
    let expected = STANDARD.encode("dyn:a%3Ab+c");
    assert_eq!(proof.authorization.unwrap().expose(), format!("Basic {expected}"));
    assert!(proof.fields.is_empty());
    client.method = AuthMethod::ClientSecretPost;
    let names: Vec<_> =
        client.prove(None, "https://as", 0).unwrap().fields.into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["client_id", "client_secret"]);
    client.method = AuthMethod::PrivateKeyJwt;
    assert!(client.prove(None, "https://as", 0).is_err());
    client.method = AuthMethod::ClientSecretPost;
    client.secret = None;
    assert!(client.prove(None, "https://as", 0).is_err());
}

#[test]
fn what_is_registered() {
    let body = registration_request(
        &Map::new(),
        "Bowline",
        "http://127.0.0.1:1/callback",
        &["a".into(), "b".into()],
        &server(None),
    );
    assert_eq!(body["application_type"], "native");
    assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(body["scope"], "a b");
    assert!(registration_request(&Map::new(), "x", "r", &[], &server(None)).get("scope").is_none());
    let extra = json!({"client_name": "mine", "logo_uri": "https://l", "redirect_uris": ["no"]});
    let body = registration_request(extra.as_object().unwrap(), "x", "r", &[], &server(None));
    assert_eq!(
        (&body["client_name"], &body["logo_uri"], &body["redirect_uris"]),
        (&json!("mine"), &json!("https://l"), &json!(["r"]))
    );
}
