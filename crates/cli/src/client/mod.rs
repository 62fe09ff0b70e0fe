//! What `bowline connect` and the commands share: whom to call, with which headers, and how to log in.

mod address;
mod headers;
mod login;
mod options;
mod setup;

pub(crate) use address::AddressError;
pub(crate) use login::Asking;
pub(crate) use options::{RemoteOptions, Transport};
pub(crate) use setup::{Far, Paste, SetupError, era, far};

/// The variables of the environment, or a test's.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Chooses the cryptography of this program for all of it. A second call changes nothing.
pub(crate) fn install_crypto() {
    // Only a second installation fails, and it is the same one.
    let _ = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider().install_default();
}
