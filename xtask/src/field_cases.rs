//! docs/field-cases.md says which test proves what; here it is held against the tests that there are.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the project").to_owned()
}

/// The rows of all tables: the cells between the bars.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'));
    rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>()).filter(|row| row[0] != "case").collect()
}

/// What stands in backticks in a cell.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The functions that are tests, in a text of Rust.
fn tests_in(text: &str) -> Vec<&str> {
    let mut tests = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if is_test && let Some((_, rest)) = line.split_once("fn ") {
            tests.push(rest.split('(').next().unwrap_or_default());
            is_test = false;
        }
    }
    tests
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("it was listed").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every test of the project, and those of the field.
fn tests() -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut field) = (BTreeSet::new(), BTreeSet::new());
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("a source is text");
        let found = tests_in(&text).into_iter().map(str::to_owned);
        if file.starts_with(root().join("crates/cli/tests/e2e/field")) {
            field.extend(found.clone());
        }
        all.extend(found);
    }
    (all, field)
}

#[test]
fn every_test_of_the_table_exists_and_every_test_of_a_case_is_in_the_table() {
    let page = fs::read_to_string(root().join("docs/field-cases.md")).expect("the page is there");
    let (all, field) = tests();
    let (mut seen, mut named, mut wrong) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for row in rows(&page) {
        let [case, fails, does, proof] = row[..] else {
            panic!("four cells a row: {row:?}");
        };
        assert!(seen.insert(case.to_owned()), "{case} has two rows");
        assert!(!fails.is_empty(), "{case}: what fails?");
        let tests: Vec<_> = names(proof).collect();
        let later = proof.contains("later: ");
        assert!(later || !does.is_empty(), "{case}: what do we do?");
        if tests.is_empty() && !later {
            wrong.push(format!("{case}: neither a test nor the part that it waits for"));
        }
        for test in tests {
            if !all.contains(test) {
                wrong.push(format!("{case}: there is no test {test}"));
            }
            if field.contains(test) && !test.starts_with(&format!("{}_", case.to_lowercase())) {
                // A test may stand for a second case, but then it stands for its own too.
                let own = test.split('_').next().unwrap_or_default().to_uppercase();
                assert!(page.contains(&format!("| {own} |")), "{test} is the test of a case without a row");
            }
            named.insert(test.to_owned());
        }
    }
    wrong.extend(field.difference(&named).map(|test| format!("{test} is in no row")));
    assert!(wrong.is_empty(), "docs/field-cases.md:\n{}", wrong.join("\n"));
    assert!(seen.len() > 70, "the tables were read: {seen:?}");
}

#[test]
fn tests_are_found_in_sources() {
    let text = "#[tokio::test]\nasync fn one() {}\nfn helper() {}\n#[test]\n#[allow(x)]\nfn two(a: u8) {}\n";
    assert_eq!(tests_in(text), ["one", "two"]);
    assert_eq!(names("`a`, `b`; later: c").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(rows("| case | x |\n|---|---|\n| A1 | text |\n"), [["A1", "text"]]);
}
