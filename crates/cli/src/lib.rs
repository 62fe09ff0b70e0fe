//! The program bowline: a gateway that never drops work, and tools around it

pub mod demo;
