//! The program `bowline`.
fn main() {}
