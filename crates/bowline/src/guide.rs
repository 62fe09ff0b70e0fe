//! Guides: one subject each, with examples that are compiled and run.
