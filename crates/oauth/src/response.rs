//! The answer of an authorization endpoint, as it came back through the browser. No IO.

use oauth2::url::form_urlencoded;

use crate::error::{Error, printable};
use crate::metadata::AuthorizationServer;
use crate::secret::Secret;

/// Checks the query of the redirect and takes the code out of it.
///
/// The order matters: `state`, then `iss` (RFC 9207 2.4), and only then anything that the answer says: an error that somebody else
/// sent is neither acted on nor shown.
///
/// # Errors
/// [`Error::Response`] where the answer is not one to this request; [`Error::Refused`] where it is, and says no.
pub fn code(query: &str, state: &Secret, server: &AuthorizationServer) -> Result<Secret, Error> {
    let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let field = |name: &str| -> Result<Option<&str>, Error> {
        let mut values = fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(Error::Response(format!("it has {name} twice"))),
            None => Ok(first),
        }
    };
    if field("state")?.map(Secret::from).as_ref() != Some(state) {
        return Err(Error::Response("its state is not the one of this login; start the login again".into()));
    }
    check_issuer(field("iss")?, server)?;
    if let Some(error) = field("error")? {
        return Err(Error::Refused {
            issuer: server.issuer.clone(),
            error: printable(error),
            description: field("error_description")?.map(printable),
        });
    }
    field("code")?
        .filter(|code| !code.is_empty())
        .map(Secret::from)
        .ok_or_else(|| Error::Response("there is no code in it".into()))
}

/// RFC 9207 2.4 with the rows of MCP 2026-07-28: compared as it is, whether or not it was announced.
fn check_issuer(iss: Option<&str>, server: &AuthorizationServer) -> Result<(), Error> {
    match iss {
        Some(iss) if iss == server.issuer => Ok(()),
        Some(iss) => Err(Error::Response(format!(
            "it comes from {}, the login was with {}; nothing was sent there",
            printable(iss),
            server.issuer
        ))),
        None if server.authorization_response_iss_parameter_supported => Err(Error::Response(format!(
            "{} announces that its answers say who they are from (iss), and this one does not",
            server.issuer
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, announced: bool) -> Result<Secret, Error> {
        let server = AuthorizationServer {
            issuer: "https://as".into(),
            authorization_response_iss_parameter_supported: announced,
            ..AuthorizationServer::default()
        };
        code(query, &"S".into(), &server)
    }

    #[test]
    fn what_is_accepted() {
        for (query, announced) in [
            ("code=c%2B&state=S", false),
            ("state=S&iss=https%3A%2F%2Fas&code=c%2B", true),
            ("code=c%2B&state=S&iss=https://as", false),
        ] {
            assert_eq!(read(query, announced).unwrap().expose(), "c+", "{query}");
        }
    }

    #[test]
    fn what_is_not() {
        for (query, announced) in [
            ("code=c", false),
            ("code=c&state=T", false),
            ("code=c&state=S&state=S", false),
            ("state=S", false),
            ("state=S&code=", false),
            ("code=c&state=S", true),
            ("code=c&state=S&iss=https://as/", true),
            ("code=c&state=S&iss=https://AS", true),
            ("code=c&state=S&iss=https://as:443", false),
            ("code=c&state=S&iss=https://evil", false),
            ("code=c&state=S&iss=https://as&iss=https://as", true),
        ] {
            assert!(matches!(read(query, announced), Err(Error::Response(_))), "{query}");
        }
    }

    #[test]
    fn an_error_of_somebody_else_is_not_shown() {
        let error =
            read("error=phish&error_description=call+me&state=S&iss=https://evil", false).unwrap_err();
        assert!(!error.to_string().contains("phish") && !error.to_string().contains("call me"), "{error}");
        let error = read("error=access_denied&error_description=no%1B%5B1m&state=S", false).unwrap_err();
        assert_eq!(error.to_string(), "the authorization server https://as refused: access_denied (no[1m)");
    }
}
