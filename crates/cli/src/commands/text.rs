//! Text of a server, fit to be shown.

/// Without control characters, but for line ends and tabs: a terminal obeys them.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The same on one line, at most `most` characters.
pub(super) fn short(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (at, c) in text
        .trim()
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control())
        .enumerate()
    {
        if at == most {
            line.push('…');
            break;
        }
        line.push(c);
    }
    line
}

/// Every line with blanks before it.
pub(super) fn indented(text: &str, blanks: usize) -> String {
    let before = " ".repeat(blanks);
    text.lines().map(|line| format!("{before}{line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_drives_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\u{7}\n\tc\u{9b}"), "a[31mb\n\tc");
        assert_eq!(short(" a\n\u{1b}b c ", 9), "a b c");
        assert_eq!(short("abcdef", 3), "abc…");
        assert_eq!(indented("a\nb", 2), "  a\n  b");
    }
}
