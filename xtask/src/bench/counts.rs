//! Instructions and allocations of the parts: what gungraun says, what was committed, and whether it has grown.

use super::figures::shown;
use super::goals::align;
use std::collections::BTreeMap;
use std::fmt;

/// How much more a count may be than the committed one.
pub(super) const TOLERANCE_PERCENT: u64 = 5;

/// What is counted of each part.
const KINDS: [&str; 3] = ["instructions", "allocations", "bytes"];

/// Counts by part and kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(BTreeMap<String, [u64; 3]>);

impl Counts {
    /// Reads what gungraun prints: a line with the name of each benchmark, and below it, set in, a line for each metric.
    ///
    /// # Errors
    ///
    /// When there is none, or one without all three counts.
    pub(super) fn of_gungraun(text: &str) -> Result<Self, String> {
        let mut counts: BTreeMap<String, [Option<u64>; 3]> = BTreeMap::new();
        let mut part = None;
        for line in text.lines() {
            if let Some(name) = name_of(line) {
                counts.insert(name.clone(), [None; 3]);
                part = Some(name);
                continue;
            }
            let Some((metric, rest)) = line.trim().split_once(':') else { continue };
            let at = match metric {
                "Instructions" => 0,
                "Total blocks" => 1,
                "Total bytes" => 2,
                _ => continue,
            };
            let now = rest.trim().split('|').next().unwrap_or_default().trim();
            let count = now.parse().map_err(|_| format!("not a count: {line:?}"))?;
            if let Some(held) = part.as_ref().and_then(|part| counts.get_mut(part)) {
                held[at] = Some(count);
            }
        }
        if counts.is_empty() {
            return Err("gungraun named no benchmark".to_owned());
        }
        let whole = |(name, counts): (String, [Option<u64>; 3])| match counts {
            [Some(a), Some(b), Some(c)] => Ok((name, [a, b, c])),
            _ => Err(format!("gungraun did not say all of {name}: {counts:?}")),
        };
        Ok(Self(counts.into_iter().map(whole).collect::<Result<_, _>>()?))
    }

    /// Reads the committed form: a part and its three counts on each line; lines with `#` are remarks.
    ///
    /// # Errors
    ///
    /// Shows the line that is of another form.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut counts = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let wrong = || format!("not a part and its three counts: {line:?}");
            let mut words = line.split_whitespace();
            let part = words.next().ok_or_else(wrong)?;
            let numbers = words.map(str::parse).collect::<Result<Vec<u64>, _>>().map_err(|_| wrong())?;
            counts.insert(part.to_owned(), numbers.try_into().map_err(|_| wrong())?);
        }
        Ok(Self(counts))
    }

    /// The same for a page.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("| part | {} |\n|---|---|---|---|\n", KINDS.join(" | "));
        for (part, counts) in &self.0 {
            let cells = counts.map(|count| shown(count as f64));
            text.push_str(&format!("| `{part}` | {} |\n", cells.join(" | ")));
        }
        text
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Made by `cargo xtask bench --parts --accept`: {}.", KINDS.join(", "))?;
        for (part, [instructions, allocations, bytes]) in &self.0 {
            writeln!(f, "{part} {instructions} {allocations} {bytes}")?;
        }
        Ok(())
    }
}

/// The name in a line such as `counts::counts::parse of_100:(p::call_body(100))`.
fn name_of(line: &str) -> Option<String> {
    let rest = line.strip_prefix("counts::counts::")?;
    let (part, rest) = rest.split_once(' ')?;
    let (id, _) = rest.split_once(':')?;
    Some(format!("{part}/{id}"))
}

/// What a comparison found.
pub(super) struct Comparison {
    /// For a terminal.
    pub(super) table: String,
    /// What has grown by more than the tolerance, or is new, or is gone.
    pub(super) grown: Vec<String>,
}

/// Compares what was counted with what was committed.
pub(super) fn compare(before: &Counts, now: &Counts) -> Comparison {
    let mut grown = Vec::new();
    let mut rows = vec![["part", "what", "committed", "now", ""].map(str::to_owned)];
    for (part, counts) in &now.0 {
        let Some(committed) = before.0.get(part) else {
            grown.push(format!("{part} (not in the baseline)"));
            continue;
        };
        for (at, kind) in KINDS.iter().enumerate() {
            let (was, is) = (committed[at], counts[at]);
            let too_much = is * 100 > was * (100 + TOLERANCE_PERCENT);
            if too_much {
                grown.push(format!("{part} {kind}"));
            }
            let note = if too_much { "grown" } else { "" };
            rows.push([
                part.clone(),
                (*kind).to_owned(),
                shown(was as f64),
                shown(is as f64),
                note.to_owned(),
            ]);
        }
    }
    grown.extend(
        before.0.keys().filter(|part| !now.0.contains_key(*part)).map(|part| format!("{part} (not counted)")),
    );
    Comparison { table: align(&rows), grown }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
counts::counts::parse of_100:(p :: call_body(100))
  ======= CALLGRIND ====
  Instructions:                                       4594|4600                 (-0.13043%) [-1.00130x]
  L1 Hits:                                            6102|N/A                  (*********)
  ======= DHAT =========
  Total bytes:                                           8|N/A                  (*********)
  Total blocks:                                          1|N/A                  (*********)

Gungraun result: Ok.
";

    #[test]
    fn what_gungraun_prints_is_read() {
        let counts = Counts::of_gungraun(SAID).unwrap();
        assert_eq!(counts.0["parse/of_100"], [4594, 1, 8]);
        assert_eq!(Counts::read(&counts.to_string()).unwrap(), counts);
        assert!(Counts::of_gungraun("nothing").is_err());
        assert!(Counts::of_gungraun(&SAID.replace("Total blocks", "Blocks")).is_err());
        assert!(Counts::of_gungraun(&SAID.replace("4594|", "many|")).is_err());
        assert!(Counts::read("parse 1 2\n").is_err());
    }

    #[test]
    fn growth_of_more_than_five_percent_fails() {
        let before = Counts::read("a 1000 1 8\nb 10 0 0\n").unwrap();
        for (now, expected) in [
            ("a 1050 1 8\nb 10 0 0", &[][..]),
            ("a 900 0 0\nb 10 0 0", &[]),
            ("a 1051 1 8\nb 10 0 0", &["a instructions"]),
            ("a 1000 2 8\nb 10 0 0", &["a allocations"]),
            ("a 1000 1 8\nb 10 1 16", &["b allocations", "b bytes"]),
            ("a 1000 1 8", &["b (not counted)"]),
            ("a 1000 1 8\nb 10 0 0\nc 1 1 1", &["c (not in the baseline)"]),
        ] {
            assert_eq!(compare(&before, &Counts::read(now).unwrap()).grown, expected, "{now}");
        }
    }
}
