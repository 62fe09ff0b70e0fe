//! Integers as text, without the way round by a formatter: there is one in every id and in every `retry`.

/// The decimal digits of an integer, on the stack.
pub(crate) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(crate) fn of(value: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        let mut left = value;
        loop {
            start -= 1;
            // The remainder of a division by ten fits a byte.
            digits[start] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                return Self { digits, start };
            }
        }
    }

    /// With the sign of a negative one.
    pub(crate) fn of_signed(value: i64) -> Self {
        let mut decimal = Self::of(value.unsigned_abs());
        if value < 0 {
            // Half as large a number as the largest has a digit less.
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'-';
        }
        decimal
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    pub(crate) fn as_str(&self) -> &str {
        // All of it is ASCII.
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_and_the_largest() {
        for value in [i64::MIN, i64::MIN + 1, -10, -1, 0, 9, 10, i64::MAX] {
            assert_eq!(Decimal::of_signed(value).as_str(), value.to_string());
        }
        assert_eq!(Decimal::of(u64::MAX).as_str(), u64::MAX.to_string());
    }

    proptest! {
        #[test]
        fn as_the_formatter_writes_it(value in any::<u64>(), shift in 0..64_u32) {
            let value = value >> shift;
            let (plain, signed) = (Decimal::of(value), Decimal::of_signed(value.cast_signed()));
            prop_assert_eq!(plain.as_str(), value.to_string());
            prop_assert_eq!(signed.as_str(), value.cast_signed().to_string());
        }
    }
}
