//! The project's chores. `cargo xtask test` is the whole test command.
fn main() {}
