//! Comments cite the contract as "SEMANTICS 5.6"; here what they cite is held against docs/semantics.md.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A section of the page: its text, and how many numbered items it has.
struct Section {
    text: String,
    items: usize,
}

/// The sections by their number. Panics where a number is missing or stands twice: citations would move.
fn sections(page: &str) -> BTreeMap<usize, Section> {
    let mut sections = BTreeMap::new();
    for part in page.split("\n## ").skip(1) {
        let (title, text) = part.split_once('\n').unwrap_or((part, ""));
        let number = leading_number(title).unwrap_or_else(|| panic!("section {title:?} has no number"));
        let mut items = 0;
        for item in text.lines().filter_map(leading_number) {
            items += 1;
            assert_eq!(item, items, "section {number}: its items are numbered without a gap");
        }
        assert_eq!(number, sections.len() + 1, "sections are numbered without a gap");
        sections.insert(number, Section { text: text.to_owned(), items });
    }
    sections
}

/// The number of a line that starts as `12. ` does.
fn leading_number(line: &str) -> Option<usize> {
    line.split_once(". ")?.0.parse().ok()
}

/// A place of the page that is cited: section, item, and a name that the section has to have.
#[derive(Debug, PartialEq, Eq)]
struct Citation {
    section: usize,
    item: Option<usize>,
    name: Option<String>,
}

/// The citations in a source. "SEMANTICS 2, 5.1 and 6" has three, "7.1 to 7.3" the two ends.
fn citations(source: &str) -> Vec<Citation> {
    // A citation may go on in the next line of its comment.
    let lines = source.lines().map(str::trim).map(|line| line.trim_start_matches(['/', '!']).trim());
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for mut rest in text.split("SEMANTICS ").skip(1) {
        while let Some((section, after)) = number(rest) {
            let item = after.strip_prefix('.').and_then(number);
            let after = item.map_or(after, |(_, after)| after);
            let name = after.strip_prefix(", \"").and_then(|after| after.split_once('"'));
            found.push(Citation {
                section,
                item: item.map(|(item, _)| item),
                name: name.map(|(name, _)| name.to_owned()),
            });
            let joined = [", ", " and ", " to "].iter().find_map(|joint| after.strip_prefix(joint));
            rest = joined.unwrap_or_default();
        }
    }
    found
}

/// The number that `text` starts with, and what follows it.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// What is wrong with a citation, if anything.
fn fault(citation: &Citation, sections: &BTreeMap<usize, Section>) -> Option<String> {
    let Citation { section, item, name } = citation;
    let Some(cited) = sections.get(section) else { return Some(format!("there is no section {section}")) };
    if let Some(item) = item.filter(|item| !(1..=cited.items).contains(item)) {
        return Some(format!("section {section} has no item {item}"));
    }
    let name = name.as_ref().filter(|name| !cited.text.contains(&format!("**{name}")))?;
    Some(format!("section {section} has nothing that is called {name:?}"))
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

#[test]
fn what_comments_cite_is_on_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the project");
    let page = fs::read_to_string(root.join("docs/semantics.md")).expect("the page is there");
    let sections = sections(&page);
    let items: Vec<_> = sections.values().map(|section| section.items).collect();
    assert_eq!(items, [8, 0, 0, 0, 11, 0, 7, 0, 0], "numbers that are cited stay what they are");

    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let (mut cited, mut wrong) = (0, Vec::new());
    for file in files {
        let citations = citations(&fs::read_to_string(&file).expect("a source is text"));
        cited += citations.len();
        let faults = citations.iter().filter_map(|citation| fault(citation, &sections));
        let shown = file.strip_prefix(root).unwrap_or(&file).display();
        wrong.extend(faults.map(|fault| format!("{shown}: {fault}")));
    }
    assert!(wrong.is_empty(), "citations of docs/semantics.md:\n{}", wrong.join("\n"));
    assert!(cited > 70, "the sources were read: {cited} citations");
}

#[test]
fn citations_are_found_in_comments() {
    let cited = |text: &str| {
        let places = citations(text);
        places.into_iter().map(|place| (place.section, place.item, place.name)).collect::<Vec<_>>()
    };
    assert_eq!(
        cited("//! SEMANTICS 5.9, 5.11 and 6: questions"),
        [(5, Some(9), None), (5, Some(11), None), (6, None, None)]
    );
    assert_eq!(cited("/// (SEMANTICS 1 to\n    /// 3), 2 s"), [(1, None, None), (3, None, None)]);
    assert_eq!(cited("// (SEMANTICS 6, \"Drain\"). 7"), [(6, None, Some("Drain".into()))]);
    assert_eq!(cited("what SEMANTICS promises; SEMANTICS 2, last paragraph"), [(2, None, None)]);
}

#[test]
fn a_citation_of_nothing_is_a_fault() {
    let page = "# Page\n\n## 1. One\n\n1. **First.** Text.\n   1. not an item\n2. Second\n\n## 2. Two\n";
    let sections = sections(page);
    let faults =
        |text: &str| citations(text).iter().filter(|cited| fault(cited, &sections).is_some()).count();
    assert_eq!(faults("SEMANTICS 1, 1.1, 1.2 and 2; SEMANTICS 1, \"First\""), 0);
    assert_eq!(faults("SEMANTICS 3 and 1.3; SEMANTICS 1.0; SEMANTICS 2.1; SEMANTICS 2, \"First\""), 5);
}
