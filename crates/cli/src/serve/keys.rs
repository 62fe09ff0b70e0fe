//! The keys that event ids are signed with. Nothing here ever shows one.

use super::settings::Environment;
use bowline_proto::cursor::{Keyring, KeyringError};
use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// More than any number of keys takes.
const LARGEST_FILE: u64 = 64 * 1024;

/// Why there are no keys. Never contains any of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("BOWLINE_KEY: {0}")]
    Variable(#[source] KeyringError),
    #[error("BOWLINE_KEY is not text: write each key in hex or base64, such as from `openssl rand -hex 32`")]
    NotText,
    #[error("the key file {}: {source}", path.display())]
    File { path: PathBuf, source: KeyringError },
    #[error("the key file {} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("both BOWLINE_KEY and BOWLINE_KEY_FILE are set; unset one")]
    Conflict,
}

/// The keys of `BOWLINE_KEY` or of a file; `None` when neither is there. A file that was typed wins over the variable.
pub(crate) fn keyring(
    file: Option<&Path>,
    file_typed: bool,
    environment: Environment<'_>,
) -> Result<Option<Keyring>, KeyError> {
    let variable = environment("BOWLINE_KEY").filter(|value| !value.is_empty());
    match (file, variable) {
        (Some(_), Some(_)) if !file_typed => Err(KeyError::Conflict),
        (Some(path), _) => from_file(path).map(Some),
        (None, Some(value)) => {
            let text = value.into_string().map_err(|_| KeyError::NotText)?;
            Keyring::parse(&text).map(Some).map_err(KeyError::Variable)
        }
        (None, None) => Ok(None),
    }
}

fn from_file(path: &Path) -> Result<Keyring, KeyError> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LARGEST_FILE).read_to_string(&mut text));
    read.map_err(|source| KeyError::Read { path: path.into(), source })?;
    let keys: Vec<&str> =
        text.lines().map(|line| line.trim().trim_end_matches(',')).filter(|line| !line.is_empty()).collect();
    Keyring::parse(&keys.join(",")).map_err(|source| KeyError::File { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const SHORT: &str = "0011223344deadbeef";

    fn with(value: &str) -> impl Fn(&str) -> Option<OsString> + '_ {
        move |name| (name == "BOWLINE_KEY").then(|| value.into())
    }

    #[test]
    fn from_the_variable() {
        assert!(keyring(None, false, &with("")).unwrap().is_none());
        assert!(keyring(None, false, &|_| None).unwrap().is_none());
        assert_eq!(keyring(None, false, &with(KEY)).unwrap().unwrap().key_ids().len(), 1);
        let two = format!("{KEY}, {}", KEY.replace("00", "11"));
        assert_eq!(keyring(None, false, &with(&two)).unwrap().unwrap().key_ids().len(), 2);
    }

    #[test]
    fn errors_do_not_show_keys() {
        let error = keyring(None, false, &with(SHORT)).unwrap_err();
        assert!(error.to_string().starts_with("BOWLINE_KEY: "), "{error}");
        assert!(!format!("{error} {error:?}").contains("deadbeef"), "{error:?}");
    }

    #[test]
    fn from_a_file() {
        let path = std::env::temp_dir().join(format!("bowline-keys-{}", std::process::id()));
        std::fs::write(&path, format!("{KEY},\n\n{}\n", KEY.replace("00", "22"))).unwrap();
        let both = keyring(Some(&path), false, &with(KEY));
        let typed = keyring(Some(&path), true, &with(KEY));
        std::fs::write(&path, SHORT).unwrap();
        let short = keyring(Some(&path), true, &|_| None);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(both, Err(KeyError::Conflict)));
        assert_eq!(typed.unwrap().unwrap().key_ids().len(), 2);
        assert!(!short.unwrap_err().to_string().contains("deadbeef"));
        let missing = keyring(Some(&path), true, &|_| None).unwrap_err().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
    }
}
