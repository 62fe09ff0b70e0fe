//! Headers as they are typed: `Name: value`, with `${VARIABLE}` in the value.

use super::Variables;
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};

/// Why a header was not understood. Never shows a value: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("--header needs `Name: value`; the {0}. one has no colon (it is not shown, it may be a secret)")]
    NoColon(usize),
    #[error("--header: {0:?} is not the name of a header")]
    Name(String),
    #[error("--header {0}: the value has characters that no header can carry")]
    Value(String),
    #[error("--header {0}: the variable {1} is not set")]
    Unset(String, String),
    #[error("--header {0}: `${{` without `}}`")]
    Brace(String),
    #[error("--token has characters that no header can carry")]
    Token,
    #[error("--token: the variable {0} is not set")]
    TokenUnset(String),
    #[error("--token: `${{` without `}}`")]
    TokenBrace,
}

enum ExpandError {
    Unset(String),
    Brace,
}

/// The headers of a command line.
pub(super) fn headers(
    typed: &[String],
    token: Option<&str>,
    variables: Variables<'_>,
) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    for (at, text) in typed.iter().enumerate() {
        let (name, value) = text.split_once(':').ok_or(HeaderError::NoColon(at + 1))?;
        let name = name.trim();
        let parsed: HeaderName = name.parse().map_err(|_| HeaderError::Name(name.into()))?;
        let value = expand(value.trim(), variables).map_err(|error| match error {
            ExpandError::Unset(variable) => HeaderError::Unset(name.into(), variable),
            ExpandError::Brace => HeaderError::Brace(name.into()),
        })?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| HeaderError::Value(name.into()))?;
        value.set_sensitive(true);
        headers.append(parsed, value);
    }
    if let Some(token) = token {
        let token = expand(token.trim(), variables).map_err(|error| match error {
            ExpandError::Unset(variable) => HeaderError::TokenUnset(variable),
            ExpandError::Brace => HeaderError::TokenBrace,
        })?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| HeaderError::Token)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Puts variables in the place of `${NAME}`. Values are not looked into again.
fn expand(text: &str, variables: Variables<'_>) -> Result<String, ExpandError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or(ExpandError::Brace)?;
        out.push_str(before);
        out.push_str(&variables(name).ok_or_else(|| ExpandError::Unset(name.into()))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: &[&str], token: Option<&str>) -> Result<HeaderMap, HeaderError> {
        let typed: Vec<String> = typed.iter().map(|&text| text.to_owned()).collect();
        headers(&typed, token, &|name| match name {
            "AUTH" => Some("Bearer hunter2".into()),
            "ODD" => Some("${AUTH}".into()),
            _ => None,
        })
    }

    #[test]
    fn as_hosts_write_them() {
        for text in ["Authorization: Bearer hunter2", "Authorization:${AUTH}", "authorization:  ${AUTH} "] {
            assert_eq!(read(&[text], None).unwrap()[AUTHORIZATION], "Bearer hunter2", "{text}");
        }
        let all = read(&["X-A: 1", "X-A: b:c", "X-Empty:", "X-Odd: <${ODD}>"], Some("t")).unwrap();
        assert_eq!(all.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "b:c"]);
        assert_eq!(
            (&all["x-empty"], &all["x-odd"]),
            (&HeaderValue::from_static(""), &HeaderValue::from_static("<${AUTH}>"))
        );
        assert_eq!(all[AUTHORIZATION], "Bearer t");
        assert!(!format!("{all:?}").contains("Bearer"), "{all:?}");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_value() {
        for (text, error) in [
            ("hunter2", HeaderError::NoColon(1)),
            ("a b: hunter2", HeaderError::Name("a b".into())),
            ("A: hunter2\u{1}", HeaderError::Value("A".into())),
            ("A: ${GONE}", HeaderError::Unset("A".into(), "GONE".into())),
            ("A: ${hunter2", HeaderError::Brace("A".into())),
        ] {
            let found = read(&[text], None).unwrap_err();
            assert_eq!(found, error, "{text}");
            assert!(!found.to_string().contains("hunter2"), "{found}");
        }
        assert_eq!(read(&[], Some("a\nb")).unwrap_err(), HeaderError::Token);
    }
}
