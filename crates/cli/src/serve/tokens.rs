//! The tokens of those who may call. Nothing here ever shows one.

use super::{reload::Reload, settings::Environment};
use bowline_server::{Authenticator, BoxFuture, Denied, Principal, StaticTokens, TokensError};
use http::request::Parts;
use parking_lot::RwLock;
use std::{
    fmt,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// More than any list of tokens that is kept in a file takes.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// Why there are no tokens. Never contains any of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("BOWLINE_AUTH_TOKENS: {0}")]
    Variable(#[source] TokensError),
    #[error("BOWLINE_AUTH_TOKENS is not text: write NAME=TOKEN, separated by commas")]
    NotText,
    #[error("the token file {}: {source}", path.display())]
    File { path: PathBuf, source: TokensError },
    #[error("the token file {} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the token file {} is larger than {LARGEST_FILE} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("both BOWLINE_AUTH_TOKENS and BOWLINE_AUTH_TOKEN_FILE are set; unset one")]
    Conflict,
}

/// Tokens that can be exchanged while they are in use.
pub(crate) struct Tokens {
    file: Option<PathBuf>,
    current: RwLock<Arc<StaticTokens>>,
}

impl Tokens {
    /// The tokens of `BOWLINE_AUTH_TOKENS` or of a file; `None` when neither is there. A file that was typed wins over the variable.
    pub(crate) fn new(
        file: Option<&Path>,
        file_typed: bool,
        environment: Environment<'_>,
    ) -> Result<Option<Arc<Self>>, TokenError> {
        let variable = environment("BOWLINE_AUTH_TOKENS").filter(|value| !value.is_empty());
        let (file, tokens) = match (file, variable) {
            (Some(_), Some(_)) if !file_typed => return Err(TokenError::Conflict),
            (Some(path), _) => (Some(path.to_owned()), from_file(path)?),
            (None, Some(value)) => {
                let text = value.into_string().map_err(|_| TokenError::NotText)?;
                (None, StaticTokens::parse(&text).map_err(TokenError::Variable)?)
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Arc::new(Self { file, current: RwLock::new(Arc::new(tokens)) })))
    }

    fn current(&self) -> Arc<StaticTokens> {
        self.current.read().clone()
    }
}

fn from_file(path: &Path) -> Result<StaticTokens, TokenError> {
    let mut text = String::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_string(&mut text));
    let read = read.map_err(|source| TokenError::Read { path: path.into(), source })?;
    if read as u64 > LARGEST_FILE {
        // Half a list would lock somebody out.
        return Err(TokenError::TooLarge(path.into()));
    }
    StaticTokens::parse(&text).map_err(|source| TokenError::File { path: path.into(), source })
}

impl Authenticator for Tokens {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> BoxFuture<'a, Result<Principal, Denied>> {
        let tokens = self.current();
        Box::pin(async move { tokens.authenticate(head).await })
    }
}

impl Reload for Tokens {
    fn what(&self) -> &'static str {
        "the tokens"
    }

    fn files(&self) -> Vec<PathBuf> {
        self.file.iter().cloned().collect()
    }

    fn reload(&self) -> Result<(), String> {
        if let Some(path) = &self.file {
            let tokens = from_file(path).map_err(|error| error.to_string())?;
            *self.current.write() = Arc::new(tokens);
        }
        Ok(())
    }
}

impl fmt::Debug for Tokens {
    /// The names alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("file", &self.file).field("names", &self.current()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    const LINE: &str = "alice=hunter2-hunter2-hunter2";

    fn with(value: &str) -> impl Fn(&str) -> Option<OsString> + '_ {
        move |name| (name == "BOWLINE_AUTH_TOKENS").then(|| value.into())
    }

    #[test]
    fn from_the_variable() {
        assert!(Tokens::new(None, false, &with("")).unwrap().is_none());
        let tokens = Tokens::new(None, false, &with(LINE)).unwrap().unwrap();
        let shown = format!("{tokens:?}");
        assert!(shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
        assert!(tokens.files().is_empty());
        let error = Tokens::new(None, false, &with("alice hunter2")).unwrap_err().to_string();
        assert!(error.starts_with("BOWLINE_AUTH_TOKENS: entry 1") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn from_a_file_and_again() {
        let path = std::env::temp_dir().join(format!("bowline-tokens-{}", std::process::id()));
        std::fs::write(&path, LINE).unwrap();
        let both = Tokens::new(Some(&path), false, &with(LINE));
        let tokens = Tokens::new(Some(&path), true, &with(LINE)).unwrap().unwrap();
        std::fs::write(&path, "bob=hunter3-hunter3-hunter3").unwrap();
        tokens.reload().unwrap();
        let after = format!("{tokens:?}");
        std::fs::write(&path, "bob=hunter3").unwrap();
        let broken = tokens.reload().unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(both, Err(TokenError::Conflict)));
        assert!(after.contains("bob") && !after.contains("alice"), "{after}");
        assert!(broken.contains("entry 1 (bob)") && !broken.contains("hunter3"), "{broken}");
        assert!(tokens.reload().unwrap_err().contains("cannot be read"));
        assert_eq!(format!("{tokens:?}"), after, "what was in force stays");
    }
}
