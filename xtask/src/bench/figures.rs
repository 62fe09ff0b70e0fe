//! What a measurement says: one figure a line.

use std::collections::BTreeMap;

/// Figures by their name, and whose they are in the order in which they were measured.
#[derive(Debug, Default)]
pub(super) struct Figures(BTreeMap<String, Vec<(String, f64)>>);

impl Figures {
    /// Reads the lines that begin with `figure`: name, subject, value, with tabs between them. A later one for the same name and subject
    /// counts.
    ///
    /// # Errors
    ///
    /// Shows the line that is no figure although it begins as one.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut figures = Self::default();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("figure\t") else { continue };
            let mut parts = rest.split('\t');
            let (Some(name), Some(subject), Some(value), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(format!("not a figure: {line:?}"));
            };
            let value: f64 = value.parse().map_err(|_| format!("not a number: {line:?}"))?;
            let of = figures.0.entry(name.to_owned()).or_default();
            match of.iter_mut().find(|(known, _)| known == subject) {
                Some((_, held)) => *held = value,
                None => of.push((subject.to_owned(), value)),
            }
        }
        Ok(figures)
    }

    pub(super) fn get(&self, name: &str, subject: &str) -> Option<f64> {
        self.of(name).iter().find(|(known, _)| known == subject).map(|(_, value)| *value)
    }

    /// All of one name.
    pub(super) fn of(&self, name: &str) -> &[(String, f64)] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// A number as a person reads it: three figures that count, and no more digits than that takes.
pub(super) fn shown(value: f64) -> String {
    let size = value.abs();
    if size >= 1_000.0 {
        let digits = format!("{size:.0}");
        let mut text = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    let places = match size {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_again_and_other_lines_are_not_minded() {
        let text = "hello\nfigure\ta\tx\t1.5\nfigure\ta\ty\t2\nfigure\ta\tx\t3\n";
        let figures = Figures::read(text).unwrap();
        assert_eq!(figures.get("a", "x"), Some(3.0));
        assert_eq!(figures.of("a").len(), 2);
        assert_eq!(figures.get("a", "z"), None);
        assert!(figures.of("b").is_empty());
        assert!(Figures::read("figure\ta\tx\n").is_err());
        assert!(Figures::read("figure\ta\tx\tmuch\n").is_err());
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.254, "1.25"),
            (1.5, "1.5"),
            (12.34, "12.3"),
            (234.5, "234"),
            (1_000.0, "1,000"),
            (117_000.4, "117,000"),
            (-2_500.0, "-2,500"),
            (-0.25, "-0.25"),
        ] {
            assert_eq!(shown(value), text);
        }
    }
}
