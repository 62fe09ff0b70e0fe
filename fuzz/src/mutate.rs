//! Inputs without a fuzzer: seeds, changed at random, the same ones in every run.

/// A small generator of numbers (xorshift64*).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub const fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `sides`, 0 where there is none.
    pub const fn below(&mut self, sides: usize) -> usize {
        if sides == 0 { 0 } else { (self.roll() >> 16) as usize % sides }
    }
}

/// One of the `seeds` with a few changes, pieces of the others and of the `words` among them; sometimes bytes out of nothing.
pub fn input(dice: &mut Dice, seeds: &[Vec<u8>], words: &[Vec<u8>]) -> Vec<u8> {
    if seeds.is_empty() || dice.below(8) == 0 {
        return (0..dice.below(512)).map(|_| dice.roll() as u8).collect();
    }
    let mut out = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(6) {
        let at = dice.below(out.len() + 1);
        match dice.below(7) {
            0 => out.truncate(at),
            1 if at < out.len() => out[at] ^= 1 << dice.below(8),
            2 if at < out.len() => out[at] = dice.roll() as u8,
            3 => drop(out.splice(at..(at + dice.below(5)).min(out.len()), [])),
            4 if !words.is_empty() => {
                drop(out.splice(at..at, words[dice.below(words.len())].iter().copied()))
            }
            5 => {
                let other = &seeds[dice.below(seeds.len())];
                let (from, to) = (dice.below(other.len()), dice.below(other.len() + 1));
                drop(out.splice(
                    at..at,
                    other[from.min(to)..to.max(from).min(from.min(to) + 64)].iter().copied(),
                ));
            }
            _ => {
                let (from, to) = (at, (at + dice.below(32)).min(out.len()));
                out.extend_from_within(from..to);
            }
        }
    }
    out.truncate(8192);
    out
}

/// The words of a dictionary in libFuzzer's format: one `name="text"` a line, with `\\`, `\"` and `\xAB` in it.
pub fn words(dictionary: &str) -> Vec<Vec<u8>> {
    let lines = dictionary.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| word(line).unwrap_or_else(|| panic!("no line of a dictionary: {line}"))).collect()
}

fn word(line: &str) -> Option<Vec<u8>> {
    let text = line.split_once('"')?.1.strip_suffix('"')?;
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'\\' => match bytes.next()? {
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other @ (b'\\' | b'"') => other,
                _ => return None,
            },
            other => other,
        };
        out.push(byte);
    }
    Some(out)
}
