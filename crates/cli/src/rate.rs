//! Rates as people write them: `100/s`.

use std::time::Duration;

/// So many requests in such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) count: u32,
    pub(crate) per: Duration,
}

/// Why a rate was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number from 1 to 1000000 and a time, such as 100/s, 600/m or 5000/h")]
pub(crate) struct RateError;

/// Reads `100/s`, `600/m`, `5000/h`.
pub(crate) fn parse(text: &str) -> Result<Requests, RateError> {
    let (count, unit) = text.trim().split_once('/').ok_or(RateError)?;
    let seconds = match unit.trim() {
        "s" | "sec" | "second" => 1,
        "m" | "min" | "minute" => 60,
        "h" | "hour" => 3_600,
        _ => return Err(RateError),
    };
    match count.trim().parse() {
        Ok(count @ 1..=1_000_000) => Ok(Requests { count, per: Duration::from_secs(seconds) }),
        _ => Err(RateError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let of = |count, seconds| Ok(Requests { count, per: Duration::from_secs(seconds) });
        assert_eq!(parse("100/s"), of(100, 1));
        assert_eq!(parse(" 600 / m "), of(600, 60));
        assert_eq!(parse("5000/h"), of(5_000, 3_600));
        for text in ["", "100", "/s", "0/s", "1000001/s", "-1/s", "1.5/s", "10/d", "10/s/s"] {
            assert_eq!(parse(text), Err(RateError), "{text}");
        }
    }
}
