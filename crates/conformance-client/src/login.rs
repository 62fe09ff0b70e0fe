//! Where the scenarios `auth/*` get their credentials.

use bowline_client::Authorizer;
use bowline_oauth::{
    ClientKey, Config, Fetch, FetchLimits, FixedAssertion, Grant, Headless, HyperFetch, ID_TOKEN,
    IdentityProvider, MemoryStore, OAuth, Preregistered, Secret, Url,
};
use serde_json::Value;
use std::{error::Error, sync::Arc};

/// The client id metadata document that the suite knows.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// Where the suite redirects to. Nothing listens there: the answer is taken from the redirect.
const REDIRECT: &str = "http://localhost:3000/callback";

/// The authorizer of a scenario; `context` is what the suite says beside its name. `None`: the scenario needs none.
pub(crate) fn authorizer(
    url: &str,
    scenario: &str,
    context: &Value,
) -> Result<Option<Arc<dyn Authorizer>>, Box<dyn Error>> {
    if !scenario.starts_with("auth/") {
        return Ok(None);
    }
    let mut config = Config::new(Url::parse(url)?);
    config.grant = grant(scenario, context)?;
    let fetch: Arc<dyn Fetch> = Arc::new(HyperFetch::new(FetchLimits::default())?);
    let person = Arc::new(Headless::new(Arc::clone(&fetch), REDIRECT));
    Ok(Some(Arc::new(OAuth::new(config, fetch, Arc::new(MemoryStore::new()), person)?)))
}

fn grant(scenario: &str, context: &Value) -> Result<Grant, Box<dyn Error>> {
    let optional = |name: &str| context[name].as_str().map(str::to_owned);
    let needed = |name: &str| optional(name).ok_or_else(|| format!("no {name} in the context"));
    let client = |key| -> Result<Preregistered, Box<dyn Error>> {
        Ok(Preregistered {
            id: needed("client_id")?,
            secret: optional("client_secret").map(Secret::from),
            key,
            issuer: optional("issuer"),
            method: None,
        })
    };
    let fixed = |name| Ok::<_, String>(Arc::new(FixedAssertion(needed(name)?.into())));
    Ok(match scenario {
        "auth/pre-registration" => Grant::Login { client: Some(client(None)?), document: None },
        "auth/client-credentials-basic" => Grant::ClientCredentials(client(None)?),
        "auth/client-credentials-jwt" => {
            let pem = Secret::from(needed("private_key_pem")?);
            let key = ClientKey::from_pem(&pem, &needed("signing_algorithm")?, None)?;
            Grant::ClientCredentials(client(Some(key))?)
        }
        "auth/enterprise-managed-authorization" => Grant::Enterprise {
            client: client(None)?,
            provider: IdentityProvider {
                issuer: needed("idp_issuer")?,
                token_endpoint: optional("idp_token_endpoint"),
                client_id: needed("idp_client_id")?,
                client_secret: None,
                subject: fixed("idp_id_token")?,
                subject_kind: ID_TOKEN.into(),
            },
        },
        "auth/wif-jwt-bearer" => {
            Grant::Workload { client_id: optional("client_id"), assertion: fixed("valid_jwt")? }
        }
        _ => Grant::Login { client: None, document: Some(DOCUMENT.into()) },
    })
}
