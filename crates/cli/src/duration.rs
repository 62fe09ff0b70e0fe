//! Durations as people write them: `500ms`, `2s`, `5m`, `1h30m`, `1d`, or `0`.

use std::{fmt::Write as _, time::Duration};

/// The longest duration that is taken. More is a slip of the hand, and sums of two still fit everywhere.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Name and milliseconds of each unit, largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is no duration. The message ends an error line that already shows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    /// `5`
    #[error("a number needs its unit: {0}ms, {0}s, {0}m or {0}h")]
    NoUnit(String),
    /// Neither digits nor a unit that is known.
    #[error("expected a duration such as 500ms, 2s, 5m, 1h30m, or 0")]
    Malformed,
    /// `1.5s`
    #[error("fractions are not taken; use the smaller unit, such as 1500ms for 1.5s")]
    Fraction,
    /// `5s2m`, `1s1s`
    #[error("each unit comes once, the larger one first, such as 1h30m")]
    Order,
    /// Over [`LONGEST`].
    #[error("longer than 365d")]
    TooLong,
    /// Zero, where that means nothing.
    #[error("has to be more than 0")]
    Zero,
}

/// Reads a duration: whole numbers, each with its unit, the largest unit first. `0` needs no unit; any other bare number
/// is refused, because people disagree on what it means.
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(DurationError::Malformed);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return if text.bytes().all(|byte| byte == b'0') {
            Ok(Duration::ZERO)
        } else {
            Err(DurationError::NoUnit(text.chars().take(20).collect()))
        };
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        if digits == 0 {
            return Err(DurationError::Malformed);
        }
        if after.starts_with(['.', ',']) {
            return Err(DurationError::Fraction);
        }
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let Some(at) = UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(DurationError::Malformed);
        };
        if at < next_unit {
            return Err(DurationError::Order);
        }
        next_unit = at + 1;
        let added = number.parse::<u64>().ok().and_then(|number| number.checked_mul(UNITS[at].1));
        total = added.and_then(|added| total.checked_add(added)).ok_or(DurationError::TooLong)?;
        rest = after;
    }
    let total = Duration::from_millis(total);
    if total > LONGEST { Err(DurationError::TooLong) } else { Ok(total) }
}

/// The same where zero means nothing: a lifetime, an interval.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, DurationError> {
    match parse(text)? {
        Duration::ZERO => Err(DurationError::Zero),
        duration => Ok(duration),
    }
}

/// The shortest text that [`parse`] reads back as `duration`, to the millisecond.
pub(crate) fn show(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, size) in UNITS {
        if left >= size {
            let _ = write!(text, "{}{name}", left / size);
            left %= size;
        }
    }
    if text.is_empty() { "0".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write() {
        for (text, millis) in [
            ("0", 0),
            ("000", 0),
            ("0s", 0),
            ("500ms", 500),
            ("2s", 2_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1m500ms", 60_500),
            ("365d", 365 * 86_400_000),
            (" 2s ", 2_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        for (text, error) in [
            ("5", DurationError::NoUnit("5".into())),
            ("", DurationError::Malformed),
            ("s", DurationError::Malformed),
            ("-1s", DurationError::Malformed),
            ("2 s", DurationError::Malformed),
            ("2S", DurationError::Malformed),
            ("2sec", DurationError::Malformed),
            ("5s3", DurationError::Malformed),
            ("1.5s", DurationError::Fraction),
            ("5s2m", DurationError::Order),
            ("1s1s", DurationError::Order),
            ("366d", DurationError::TooLong),
            ("365d1ms", DurationError::TooLong),
            ("99999999999999999999s", DurationError::TooLong),
            ("18446744073709551615h", DurationError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        assert_eq!(parse("5").unwrap_err().to_string(), "a number needs its unit: 5ms, 5s, 5m or 5h");
        assert_eq!(parse_positive("0"), Err(DurationError::Zero));
        assert_eq!(parse_positive("0ms"), Err(DurationError::Zero));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in 0..=365 * 86_400_000_u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9dhms.\\- é]{0,24}") {
            if let Ok(duration) = parse(&text) {
                prop_assert!(duration <= LONGEST);
            }
        }
    }
}
