//! Numbers that whoever runs a server looks at.

/// How a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FigureKind {
    /// It only grows, from 0 at the start of the process.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One number, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What it is called: lower-case letters, digits and `_`, without prefix and without `_total`. The same name always has the
    /// same meaning and kind.
    pub name: &'static str,
    /// What it counts, one sentence for an operator.
    pub help: &'static str,
    /// How it moves.
    pub kind: FigureKind,
    /// The number.
    pub value: u64,
}

impl Figure {
    /// A number that only grows.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: FigureKind::Counter, value }
    }

    /// A number that goes up and down.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: FigureKind::Gauge, value }
    }
}
