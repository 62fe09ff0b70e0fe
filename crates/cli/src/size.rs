//! Sizes as people write them: plain bytes, `64KiB`, `4MiB`, `500kB`, `1GB`.

/// Names (in lower case) and bytes of each unit.
const UNITS: [(&str, u64); 8] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];

/// Why a text is no size. The message ends an error line that already shows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SizeError {
    /// `4M`
    #[error("`{0}` may mean two things: say {0}iB (1024) or {0}B (1000)")]
    Ambiguous(String),
    /// Neither digits nor a unit that is known.
    #[error("expected a size such as 65536, 64KiB, 4MiB or 10MB")]
    Malformed,
    /// `1.5MiB`
    #[error("fractions are not taken; use the smaller unit, such as 1536KiB for 1.5MiB")]
    Fraction,
    /// More than 64 bits of bytes.
    #[error("too large")]
    TooLarge,
    /// Zero, where that means nothing.
    #[error("has to be more than 0")]
    Zero,
}

/// Reads a size in bytes, more than 0. Units are taken in any case; `K`, `M` and `G` alone are refused.
pub(crate) fn parse(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if unit.starts_with(['.', ',']) && digits > 0 {
        return Err(SizeError::Fraction);
    }
    let unit = unit.trim_start();
    let lower = unit.to_ascii_lowercase();
    if digits == 0 {
        return Err(SizeError::Malformed);
    }
    if matches!(lower.as_str(), "k" | "m" | "g") {
        return Err(SizeError::Ambiguous(unit.to_ascii_uppercase()));
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == lower).ok_or(SizeError::Malformed)?;
    let number = number.parse::<u64>().map_err(|_| SizeError::TooLarge)?;
    match number.checked_mul(*factor) {
        None => Err(SizeError::TooLarge),
        Some(0) => Err(SizeError::Zero),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write() {
        for (text, bytes) in [
            ("1", 1),
            ("65536", 65_536),
            ("12B", 12),
            ("64KiB", 65_536),
            ("4MiB", 4 << 20),
            ("4mib", 4 << 20),
            ("4 MiB", 4 << 20),
            ("1GiB", 1 << 30),
            ("500kB", 500_000),
            ("500KB", 500_000),
            ("10MB", 10_000_000),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        for (text, error) in [
            ("", SizeError::Malformed),
            ("MiB", SizeError::Malformed),
            ("-1", SizeError::Malformed),
            ("4x", SizeError::Malformed),
            ("4m", SizeError::Ambiguous("M".into())),
            ("1.5MiB", SizeError::Fraction),
            ("0", SizeError::Zero),
            ("0MiB", SizeError::Zero),
            ("99999999999999999999", SizeError::TooLarge),
            ("18446744073709551615KiB", SizeError::TooLarge),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        assert_eq!(
            parse("4M").unwrap_err().to_string(),
            "`M` may mean two things: say MiB (1024) or MB (1000)"
        );
    }

    proptest! {
        #[test]
        fn a_number_times_its_unit(number in 1..1_000_000_u64, unit in 0..UNITS.len()) {
            let (name, factor) = UNITS[unit];
            prop_assert_eq!(parse(&format!("{number}{name}")), Ok(number * factor));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9KMGiBb. é\\-]{0,24}") {
            if let Ok(bytes) = parse(&text) {
                prop_assert!(bytes > 0);
            }
        }
    }
}
