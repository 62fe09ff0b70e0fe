//! Levels of log messages, those of syslog.

use serde::{Deserialize, Serialize};

/// How grave a log message is, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For whoever looks for a fault.
    Debug,
    /// What happens.
    Info,
    /// What happens and is worth knowing.
    Notice,
    /// What may become a fault.
    Warning,
    /// A fault.
    Error,
    /// A fault of a part.
    Critical,
    /// Something has to be done at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl Level {
    /// The level of that name.
    #[must_use]
    pub fn from_wire(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}
