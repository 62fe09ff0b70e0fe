//! The answer to a form that the person left as it was.

use crate::jsonrpc::Raw;

/// `content` with the defaults of the form's schema for what it does not say. `None` is an empty content.
///
/// Only the top level has defaults: forms are flat.
#[must_use]
pub fn form_defaults(schema: &Raw, content: Option<&Raw>) -> Raw {
    let mut members = content.and_then(Raw::members).unwrap_or_default();
    let properties =
        schema.member("properties").and_then(|properties| properties.members()).unwrap_or_default();
    for (name, property) in properties {
        if let Some(default) = property.member("default")
            && !members.iter().any(|(said, _)| *said == name)
        {
            members.push((name, default));
        }
    }
    Raw::from_members(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fill_what_is_not_said() {
        let schema = Raw::parse(
            r#"{"properties":{"a":{"default":1.50},"b":{"default":"x"},"c":{"type":"string"},"d":{"default":false}}}"#,
        )
        .unwrap();
        let said = Raw::parse(r#"{"b":"y"}"#).unwrap();
        assert_eq!(form_defaults(&schema, Some(&said)).as_str(), r#"{"b":"y","a":1.50,"d":false}"#);
        assert_eq!(form_defaults(&Raw::empty_object(), None).as_str(), "{}");
    }
}
