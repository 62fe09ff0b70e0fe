//! The little arithmetic that figures need.

/// The middle of some values; of an even number the mean of the two in the middle, of none 0.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[len / 2],
        len => f64::midpoint(values[len / 2 - 1], values[len / 2]),
    }
}

/// What each of `count` more things took of what grew.
pub(super) fn each(before: u64, after: u64, count: usize) -> f64 {
    (after as f64 - before as f64) / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (values, expected) in [
            (&[][..], 0.0),
            (&[3.0], 3.0),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[4.0, 1.0, 2.0, 9.0], 3.0),
            (&[f64::NAN, 1.0], 1.0),
        ] {
            assert!((median(values.iter().copied()) - expected).abs() < 1e-9, "{values:?}");
        }
        assert!((each(1_000, 3_000, 4) - 500.0).abs() < 1e-9);
        assert!((each(3_000, 1_000, 4) + 500.0).abs() < 1e-9);
    }
}
