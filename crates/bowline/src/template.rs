//! URI templates (RFC 6570) as resources are found by: matched, not expanded.

use std::borrow::Cow;

/// A template of literals and expressions: `{name}` matches up to the next `/`, `{+name}` anything, `{?a,b}` at the end any
/// of these query parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
    query: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable { name: String, slashes: bool },
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it, for the author of the server.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut query) = (Vec::new(), Vec::new());
        let mut rest = text;
        while !rest.is_empty() {
            let Some(open) = rest.find('{') else {
                parts.push(Part::Literal(rest.to_owned()));
                break;
            };
            if open > 0 {
                parts.push(Part::Literal(rest[..open].to_owned()));
            }
            let close = rest.find('}').filter(|close| *close > open).ok_or("a \"{\" is not closed")?;
            let expression = &rest[open + 1..close];
            rest = &rest[close + 1..];
            if let Some(names) = expression.strip_prefix('?') {
                if !rest.is_empty() {
                    return Err(format!("{{{expression}}} has to stand at the end"));
                }
                query = names.split(',').map(name).collect::<Result<_, _>>()?;
                break;
            }
            if matches!(parts.last(), Some(Part::Variable { .. })) {
                return Err(format!(
                    "nothing stands between {{{expression}}} and the variable before it, so that they cannot be told apart"
                ));
            }
            let (slashes, text) = match expression.strip_prefix('+') {
                Some(text) => (true, text),
                None => (false, expression),
            };
            parts.push(Part::Variable { name: name(text)?, slashes });
        }
        let template = Self { parts, query };
        let names = template.names();
        if names.is_empty() {
            return Err("it has no variable; give it as a resource".into());
        }
        if let Some(twice) = names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1)
        {
            return Err(format!("the variable {twice:?} stands twice"));
        }
        Ok(template)
    }

    /// The names of the variables, in their order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let in_path = self.parts.iter().filter_map(|part| match part {
            Part::Variable { name, .. } => Some(&**name),
            Part::Literal(_) => None,
        });
        in_path.chain(self.query.iter().map(|name| &**name)).collect()
    }

    /// The variables of `uri`, percent-decoded; `None` where it is not of this form.
    pub(crate) fn matches<'t>(&'t self, uri: &str) -> Option<Vec<(Cow<'t, str>, Cow<'static, str>)>> {
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) if !self.query.is_empty() => (path, query),
            _ => (uri, ""),
        };
        let mut found = Vec::new();
        if !match_parts(&self.parts, path, &mut found) {
            return None;
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = self.query.iter().find(|name| **name == key)?;
            found.push((Cow::Borrowed(&**name), decode(value)?.into()));
        }
        Some(found)
    }
}

fn name(text: &str) -> Result<String, String> {
    let valid =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if valid {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no variable; {{name}}, {{+name}} and {{?a,b}} are understood"))
    }
}

/// Matches the parts to all of `text`, in one pass: a variable ends where the literal after it first stands, and the last one so that
/// the rest of the template ends with the text.
fn match_parts<'t>(
    parts: &'t [Part],
    text: &str,
    found: &mut Vec<(Cow<'t, str>, Cow<'static, str>)>,
) -> bool {
    match parts {
        [] => text.is_empty(),
        [Part::Literal(literal), rest @ ..] => {
            text.strip_prefix(&**literal).is_some_and(|text| match_parts(rest, text, found))
        }
        [Part::Variable { name, slashes }, rest @ ..] => {
            let end = match rest {
                [] => Some(text.len()),
                [Part::Literal(last)] => text.strip_suffix(&**last).map(str::len),
                [Part::Literal(next), ..] => text.find(&**next),
                // Refused when the template was read.
                [Part::Variable { .. }, ..] => None,
            };
            let Some((value, after)) = end.and_then(|end| text.split_at_checked(end)) else { return false };
            if value.is_empty() || (!slashes && value.contains('/')) {
                return false;
            }
            let Some(value) = decode(value) else { return false };
            found.push((Cow::Borrowed(&**name), value.into()));
            match_parts(rest, after, found)
        }
    }
}

/// Percent-decoded text; `None` where that is no UTF-8 or an escape is broken.
fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || bytes.next().and_then(|byte| (byte as char).to_digit(16));
            let (high, low) = (digit()?, digit()?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        let template = Template::parse(template).unwrap();
        let found = template.matches(uri)?;
        Some(found.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn variables_are_found_and_decoded() {
        assert_eq!(found("test://t/{id}/data", "test://t/1%20%C3%A9/data"), pairs(&[("id", "1 é")]));
        assert_eq!(found("test://t/{id}/data", "test://t/1/2/data"), None);
        assert_eq!(found("test://t/{id}/data", "test://t//data"), None);
        assert_eq!(found("test://t/{id}/data", "test://t/1/data/more"), None);
        assert_eq!(found("file:///{+path}", "file:///a/b.txt"), pairs(&[("path", "a/b.txt")]));
        assert_eq!(found("x:{a}-{b}", "x:1-2-3"), pairs(&[("a", "1"), ("b", "2-3")]));
        assert_eq!(found("x:{a}-{b}-z", "x:1-2-3-z"), pairs(&[("a", "1"), ("b", "2-3")]));
        assert_eq!(found("x:{id}", "x:%zz"), None);
        assert_eq!(found("x:q{?a,b}", "x:q?b=2"), pairs(&[("b", "2")]));
        assert_eq!(found("x:q{?a,b}", "x:q"), pairs(&[]));
        assert_eq!(found("x:q{?a,b}", "x:q?c=2"), None);
    }

    #[test]
    fn what_cannot_be_matched_is_refused() {
        for text in ["x:{a", "x:{a}{b}", "x:{a}/{a}", "x:plain", "x:{#a}", "x:{?a}/y", "x:{}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_put_in_is_found(a in "[a-zA-Z0-9]{1,20}", b in "[a-zA-Z0-9/]{1,20}") {
            let uri = format!("x://{a}/at/{b}");
            let template = Template::parse("x://{a}/at/{+b}").unwrap();
            let found = template.matches(&uri).unwrap();
            prop_assert_eq!(&*found[0].1, &*a);
            prop_assert_eq!(&*found[1].1, &*b);
        }

        #[test]
        fn any_text_is_matched_or_not(uri in ".{0,60}") {
            let template = Template::parse("x:{a}-{+b}-{c}{?d}").unwrap();
            let _ = template.matches(&uri);
        }
    }
}
