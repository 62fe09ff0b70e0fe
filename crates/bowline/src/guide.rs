//! Guides: one subject each, with examples that are compiled and run.

#[doc = include_str!("guide/tools.md")]
pub mod tools {}

#[doc = include_str!("guide/resources.md")]
pub mod resources {}

#[doc = include_str!("guide/asking.md")]
pub mod asking {}

#[doc = include_str!("guide/long_calls.md")]
pub mod long_calls {}

#[doc = include_str!("guide/tasks.md")]
pub mod tasks {}

#[doc = include_str!("guide/serving.md")]
pub mod serving {}

#[doc = include_str!("guide/testing.md")]
pub mod testing {}
