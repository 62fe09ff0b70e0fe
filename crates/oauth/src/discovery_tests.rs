use std::collections::HashMap;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn texts(urls: Vec<Url>) -> Vec<String> {
    urls.into_iter().map(String::from).collect()
}

#[test]
fn where_the_documents_may_be() {
    let resource = "https://a.b/.well-known/oauth-protected-resource";
    assert_eq!(
        texts(resource_metadata_urls(&url("https://a.b/x/mcp"))),
        [format!("{resource}/x/mcp"), resource.into()]
    );
    assert_eq!(
        texts(resource_metadata_urls(&url("https://a.b/mcp/?t=1"))),
        [format!("{resource}/mcp?t=1"), resource.into()]
    );
    assert_eq!(texts(resource_metadata_urls(&url("https://a.b/"))), [resource]);
    assert_eq!(
        texts(server_metadata_urls(&url("https://a.b:8/t1/"))),
        [
            "https://a.b:8/.well-known/oauth-authorization-server/t1",
            "https://a.b:8/.well-known/openid-configuration/t1",
            "https://a.b:8/t1/.well-known/openid-configuration",
        ]
    );
    assert_eq!(
        texts(server_metadata_urls(&url("https://a.b"))),
        [
            "https://a.b/.well-known/oauth-authorization-server",
            "https://a.b/.well-known/openid-configuration"
        ]
    );
}

#[test]
fn which_resources_are_the_servers() {
    let server = url("https://a.b/x/mcp?k=1");
    for good in [
        "https://a.b/x/mcp",
        "https://A.b/x/mcp",
        "https://a.b:443/x",
        "https://a.b",
        "https://a.b/",
        "https://a.b/x/mcp?k=1",
    ] {
        assert!(check_resource(good, &server).is_ok(), "{good}");
    }
    for bad in [
        "https://evil/x/mcp",
        "http://a.b/x/mcp",
        "https://a.b:444/",
        "https://a.b/x/mc",
        "https://a.b/x/mcp/y",
        "https://a.b/x?k=2",
        "a.b",
        "https://a.b/#f",
    ] {
        assert!(check_resource(bad, &server).is_err(), "{bad}");
    }
}

/// Runs the machine against a table of documents; returns the addresses asked and the outcome.
fn run(
    hints: &Hints,
    legacy: bool,
    preferred: &[&str],
    documents: &[(&str, u16, &str)],
) -> (Vec<String>, Result<Discovered, Error>) {
    let server = url("https://mcp.example/v1/mcp");
    let documents: HashMap<_, _> =
        documents.iter().map(|(address, status, body)| (*address, (*status, *body))).collect();
    let preferred: Vec<String> = preferred.iter().map(|p| (*p).to_owned()).collect();
    let policy = AddressPolicy::for_server(&server, false);
    let mut asked = Vec::new();
    let mut machine =
        match Discovery::new(&server, hints, DiscoveryOptions { preferred: &preferred, legacy, policy }) {
            Ok(machine) => machine,
            Err(error) => return (asked, Err(error)),
        };
    loop {
        match machine.step() {
            Err(error) => return (asked, Err(error)),
            Ok(Step::Done(found)) => return (asked, Ok(*found)),
            Ok(Step::Get(address)) => {
                assert!(asked.len() < 20, "it never ends: {asked:?}");
                let (status, body) = documents.get(address.as_str()).copied().unwrap_or((404, ""));
                asked.push(address.to_string());
                let status = StatusCode::from_u16(status).unwrap();
                let location = status.is_redirection().then_some(body);
                if let Err(error) = machine.answer(Answer { status, location, body: body.as_bytes() }) {
                    return (asked, Err(error));
                }
            }
        }
    }
}

const AT_PATH: &str = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp";
const AT_ROOT: &str = "https://mcp.example/.well-known/oauth-protected-resource";
const AS: &str = "https://as.example/.well-known/oauth-authorization-server";
const RESOURCE: &str = r#"{"resource":"https://mcp.example/v1/mcp","authorization_servers":["https://as.example","https://as2.example"]}"#;
const SERVER: &str = r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/t"}"#;

fn named(address: &str) -> Hints {
    Hints { resource_metadata: Some(address.into()), ..Hints::default() }
}

#[test]
fn the_challenge_comes_first_and_alone() {
    let (asked, found) = run(
        &named("https://mcp.example/meta"),
        true,
        &[],
        &[("https://mcp.example/meta", 200, RESOURCE), (AS, 200, SERVER)],
    );
    assert_eq!(asked, ["https://mcp.example/meta", AS]);
    let found = found.unwrap();
    assert_eq!((found.resource.as_deref(), found.legacy), (Some("https://mcp.example/v1/mcp"), false));
}

#[test]
fn then_the_path_then_the_root() {
    let (asked, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 200, RESOURCE), (AS, 200, SERVER)]);
    assert_eq!((asked, found.is_ok()), (vec![AT_PATH.into(), AS.into()], true));
    let page = "<html>every path has this page</html>";
    let (asked, found) = run(
        &Hints::default(),
        true,
        &[],
        &[(AT_PATH, 200, page), (AT_ROOT, 200, RESOURCE), (AS, 200, SERVER)],
    );
    assert_eq!((asked, found.is_ok()), (vec![AT_PATH.into(), AT_ROOT.into(), AS.into()], true));
}

#[test]
fn a_known_issuer_is_preferred() {
    let second = "https://as2.example/.well-known/openid-configuration";
    let documents = [(AT_PATH, 200, RESOURCE), (second, 200, r#"{"issuer":"https://as2.example"}"#)];
    let (asked, found) = run(&Hints::default(), true, &["https://as2.example"], &documents);
    assert_eq!(found.unwrap().server.issuer, "https://as2.example");
    assert_eq!(asked.last().map(String::as_str), Some(second));
}

#[test]
fn another_resource_or_issuer_is_refused() {
    let other = r#"{"resource":"https://evil.example/mcp","authorization_servers":["https://as.example"]}"#;
    let (asked, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 200, other), (AS, 200, SERVER)]);
    assert!(matches!(found, Err(Error::ResourceMismatch { .. })), "{found:?}");
    assert_eq!(asked, [AT_PATH]);
    for issuer in
        ["https://evil.example", "https://as.example/", "https://AS.example", "https://as.example:443"]
    {
        let document = format!(r#"{{"issuer":"{issuer}"}}"#);
        let (_, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 200, RESOURCE), (AS, 200, &document)]);
        assert!(matches!(found, Err(Error::IssuerMismatch { .. })), "{issuer}: {found:?}");
    }
}

#[test]
fn the_rules_of_2025_03_26() {
    let root = "https://mcp.example/.well-known/oauth-authorization-server";
    let document = r#"{"issuer":"https://mcp.example","token_endpoint":"https://mcp.example/oauth/t"}"#;
    let (_, found) = run(&Hints::default(), true, &[], &[(root, 200, document)]);
    let found = found.unwrap();
    assert_eq!(
        (found.legacy, found.resource, found.server.token_endpoint.as_deref()),
        (true, None, Some("https://mcp.example/oauth/t"))
    );

    let (asked, found) = run(&Hints::default(), true, &[], &[]);
    let server = found.unwrap().server;
    assert_eq!(server.issuer, "https://mcp.example");
    assert_eq!(server.registration_endpoint.as_deref(), Some("https://mcp.example/register"));
    assert_eq!(asked, [AT_PATH, AT_ROOT, root, "https://mcp.example/.well-known/openid-configuration"]);

    let (_, found) =
        run(&Hints::default(), true, &[], &[(root, 200, r#"{"issuer":"https://evil.example"}"#)]);
    assert!(matches!(found, Err(Error::IssuerMismatch { .. })), "{found:?}");
    let (asked, found) = run(&Hints::default(), false, &[], &[]);
    assert!(matches!(found, Err(Error::Discovery(_))), "{found:?}");
    assert_eq!(asked.len(), 2);
}

#[test]
fn a_server_in_trouble_is_not_an_old_server() {
    let (asked, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 503, "")]);
    assert!(found.is_err_and(|error| error.is_transient()));
    assert_eq!(asked.len(), 1);
}

#[test]
fn an_authorization_server_without_metadata_is_an_error() {
    let (asked, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 200, RESOURCE)]);
    assert!(matches!(found, Err(Error::Discovery(_))), "{found:?}");
    assert_eq!(asked.len(), 3);
}

#[test]
fn redirects_are_followed_a_little_and_checked() {
    let (asked, found) = run(
        &Hints::default(),
        true,
        &[],
        &[(AT_PATH, 302, "/m"), ("https://mcp.example/m", 200, RESOURCE), (AS, 200, SERVER)],
    );
    assert_eq!((asked.len(), found.is_ok()), (3, true));
    let (asked, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 302, AT_PATH)]);
    assert_eq!((asked.len(), found.is_err()), (4, true));
    for target in ["http://mcp.example/m", "https://127.0.0.1/m", "https://169.254.169.254/m"] {
        let (_, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 302, target)]);
        assert!(matches!(found, Err(Error::Address { .. })), "{target}: {found:?}");
    }
}

#[test]
fn addresses_from_elsewhere_are_checked() {
    for address in ["http://mcp.example/m", "https://localhost/m", "ftp://mcp.example/m"] {
        let (asked, found) = run(&named(address), true, &[], &[]);
        assert!(matches!(found, Err(Error::Address { .. })), "{address}: {found:?}");
        assert!(asked.is_empty());
    }
    let local = r#"{"resource":"https://mcp.example/v1/mcp","authorization_servers":["http://127.0.0.1:9"]}"#;
    let (_, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 200, local)]);
    assert!(matches!(found, Err(Error::Address { .. })), "{found:?}");
}

#[test]
fn wishes_for_proofs_are_seen() {
    let document = r#"{"resource":"https://mcp.example/v1/mcp","authorization_servers":["https://as.example"],"dpop_bound_access_tokens_required":true}"#;
    let (_, found) = run(&Hints::default(), true, &[], &[(AT_PATH, 200, document), (AS, 200, SERVER)]);
    assert!(found.unwrap().wants_dpop);
    let (_, found) = run(
        &Hints { dpop: true, ..Hints::default() },
        true,
        &[],
        &[(AT_PATH, 200, RESOURCE), (AS, 200, SERVER)],
    );
    assert!(found.unwrap().wants_dpop);
}
