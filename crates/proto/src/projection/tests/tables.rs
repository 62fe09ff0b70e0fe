//! The tables of the revisions are sound: every row can be reached, and stands once.

use super::*;
use std::collections::BTreeSet;

const ROOTS: [Part; 17] = [
    Part::InitializeResult,
    Part::CallResult,
    Part::ToolList,
    Part::ResourceList,
    Part::TemplateList,
    Part::PromptList,
    Part::PromptResult,
    Part::ReadResult,
    Part::Error,
    Part::SamplingResult,
    Part::RootList,
    Part::InitializeParams,
    Part::CallParams,
    Part::CompleteParams,
    Part::Sampling,
    Part::Elicitation,
    Part::Progress,
];

/// Messages of the kind `root` that hold a `part` with the member `name`, one for each way to it.
fn messages(root: Part, part: Part, name: &str) -> Vec<String> {
    let kind = if root.is_content() { r#""type":"text","# } else { "" };
    let mut found = Vec::new();
    if root == part {
        found.push(format!(r#"{{{kind}"x":1.0,"{name}":1}}"#));
    }
    for (member, held, child) in root.children() {
        found.extend(messages(*child, part, name).into_iter().map(|inner| match held {
            Held::One | Held::OneOrEach => format!(r#"{{{kind}"{member}":{inner}}}"#),
            Held::Each => format!(r#"{{{kind}"{member}":[{inner}]}}"#),
            Held::Values => format!(r#"{{{kind}"{member}":{{"any":{inner}}}}}"#),
        }));
    }
    found
}

#[test]
fn every_later_field_is_found_wherever_its_object_stands() {
    for pair in ALL.windows(2) {
        let (older, newer) = (pair[0], pair[1]);
        for (part, names) in newer.introduced().fields {
            for name in *names {
                let found: Vec<_> = ROOTS
                    .into_iter()
                    .flat_map(|root| messages(root, *part, name).into_iter().map(move |text| (root, text)))
                    .collect();
                assert!(!found.is_empty(), "nothing holds a {part:?}");
                for (root, text) in found {
                    assert_eq!(walk::fit(newer, root, raw(&text)).as_str(), text, "for {newer}");
                    let fit = walk::fit(older, root, raw(&text));
                    assert!(
                        !fit.as_str().contains(&format!("\"{name}\":")),
                        "{fit} has {name} for {older}",
                        fit = fit.as_str()
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_is_introduced_twice() {
    let (mut fields, mut kinds, mut methods) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for introduced in ALL.map(Revision::introduced) {
        for (part, names) in introduced.fields {
            assert!(names.iter().all(|name| fields.insert((format!("{part:?}"), *name))), "{part:?}");
        }
        assert!(introduced.kinds.iter().all(|kind| kinds.insert(kind.name)));
        assert!(introduced.methods.iter().all(|method| methods.insert(*method)));
    }
}
