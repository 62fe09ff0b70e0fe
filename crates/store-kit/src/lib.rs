//! The conformance kit that every Bowline store must pass
