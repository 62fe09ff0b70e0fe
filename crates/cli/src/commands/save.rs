//! Binary content in files.

use super::failure::Failure;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

/// Files of one name that are tried before giving up.
const MOST: u32 = 10_000;

/// Writes files into a folder; never over one that is there.
#[derive(Debug)]
pub(super) struct Saver {
    dir: PathBuf,
    stem: String,
}

impl Saver {
    /// Files in `dir` whose names begin with what is usable of `name`.
    pub(super) fn new(dir: &Path, name: &str) -> Self {
        Self { dir: dir.to_owned(), stem: usable(name) }
    }

    /// Writes one, in the folder that is made where there is none.
    pub(super) fn save(&self, mime: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let failed =
            |path: &Path, error: std::io::Error| Failure::here(format!("{}: {error}", path.display()));
        fs::create_dir_all(&self.dir).map_err(|error| failed(&self.dir, error))?;
        let (stem, end) = match self.stem.rsplit_once('.') {
            Some((stem, end)) if !stem.is_empty() && !end.is_empty() => (stem, end),
            _ => (self.stem.as_str(), extension(mime)),
        };
        for number in 1..=MOST {
            let path = self.dir.join(format!("{stem}-{number}.{end}"));
            match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(bytes).map_err(|error| failed(&path, error))?;
                    return Ok(path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
        Err(Failure::here(format!("{} has {MOST} files of the name {stem} already", self.dir.display())))
    }
}

/// The bytes that a server sent as base64.
pub(super) fn decoded(data: &str) -> Result<Vec<u8>, Failure> {
    let text: String = data.chars().filter(|c| !c.is_whitespace()).collect();
    STANDARD.decode(text).map_err(|error| {
        Failure::answer(format!("the server sent binary content that is not base64: {error}"))
    })
}

/// A name that is no path and needs no quotes.
fn usable(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = last.chars().map(plain).take(80).collect();
    let name = name.trim_matches(['.', '-']);
    if name.is_empty() { "content".into() } else { name.into() }
}

/// What files of a type end with.
fn extension(mime: &str) -> &'static str {
    match mime.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "audio/flac" => "flac",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "text/html" => "html",
        "text/csv" => "csv",
        "text/markdown" => "md",
        text if text.starts_with("text/") => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        for (name, usable_name) in [
            ("echo", "echo"),
            ("file:///a/b.png", "b.png"),
            ("../../etc/passwd", "passwd"),
            ("..", "content"),
            ("", "content"),
            ("a b\u{1b}/", "a-b"),
            ("x://h/?q=1", "q-1"),
        ] {
            assert_eq!(usable(name), usable_name, "{name}");
        }
        assert_eq!(usable(&"x".repeat(300)).len(), 80);
    }

    #[test]
    fn files_are_never_written_over() {
        let dir = std::env::temp_dir().join(format!("bowline-save-{}", std::process::id()));
        let saver = Saver::new(&dir.join("deep"), "tool");
        let paths: Vec<PathBuf> =
            [b"one", b"two"].map(|bytes| saver.save("image/png", bytes).unwrap()).to_vec();
        assert!(paths[0].ends_with("deep/tool-1.png") && paths[1].ends_with("deep/tool-2.png"), "{paths:?}");
        assert_eq!(fs::read(&paths[0]).unwrap(), b"one");
        assert!(Saver::new(&dir, "a.tar").save("image/png", b"").unwrap().ends_with("a-1.tar"));
        assert_eq!(Saver::new(&paths[0], "x").save("", b"").unwrap_err().exit_code(), 7);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn base64_of_servers() {
        assert_eq!(decoded("aGk=").unwrap(), b"hi");
        assert_eq!(decoded("aG\nk=\n").unwrap(), b"hi");
        assert_eq!(decoded("!").unwrap_err().exit_code(), 3);
    }
}
