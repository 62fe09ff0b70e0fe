//! Where things are in this checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;

/// The folders that the steps work with. All absolute.
#[derive(Debug)]
pub(crate) struct Project {
    /// The workspace's root.
    pub root: PathBuf,
    /// Cargo's target folder, wherever the user's configuration puts it.
    pub target: PathBuf,
}

impl Project {
    /// Asks Cargo, so that a configured target folder is honoured.
    ///
    /// # Errors
    ///
    /// When Cargo cannot read the workspace.
    pub(crate) fn find() -> Result<Self, String> {
        let metadata = command::output(cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
        let folder = |key: &str| {
            json_string(&metadata, key)
                .map(PathBuf::from)
                .ok_or_else(|| format!("`cargo metadata` did not say what {key} is"))
        };
        Ok(Self { root: folder("workspace_root")?, target: folder("target_directory")? })
    }

    /// The program under test, as step `build` leaves it.
    pub(crate) fn program(&self) -> PathBuf {
        self.target.join("release").join(format!("bowline{}", std::env::consts::EXE_SUFFIX))
    }

    /// Where tools are installed; removing the folder costs only the time to install them again.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// The Node.js clients and the reference server that the end-to-end tests start.
    pub(crate) fn node_clients(&self) -> PathBuf {
        self.root.join("tests/clients/node")
    }

    /// The MCP Inspector, and what drives a browser through it.
    pub(crate) fn inspector(&self) -> PathBuf {
        self.root.join("tests/inspector")
    }

    /// The official conformance suite.
    pub(crate) fn conformance(&self) -> PathBuf {
        self.root.join("conformance")
    }

    /// The client on the Rust SDK, a workspace of its own.
    pub(crate) fn rmcp_client(&self) -> PathBuf {
        self.root.join("tests/clients/rmcp")
    }

    /// Where that client is built: not among our own crates, so that neither build waits for the other's lock.
    pub(crate) fn rmcp_target(&self) -> PathBuf {
        self.target.join("rmcp-client")
    }

    /// The client on the Rust SDK, as step `rmcp-client` leaves it.
    pub(crate) fn rmcp_program(&self) -> PathBuf {
        self.rmcp_target().join("debug").join(format!("bowline-rmcp-client{}", std::env::consts::EXE_SUFFIX))
    }

    /// Where the benchmarks are built: a workspace of its own too.
    pub(crate) fn benches_target(&self) -> PathBuf {
        self.target.join("benches")
    }

    /// A command that runs in the root.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(&self.root);
        command
    }

    /// Cargo, in the root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }
}

/// The Cargo that runs us, so that `cargo +toolchain xtask` stays with its toolchain.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The value of the last `"key":"value"` in `json` (Cargo's own keys stand after the packages'), unescaped as far as
/// a path needs.
fn json_string(json: &str, key: &str) -> Option<String> {
    let start = json.rfind(&format!("\"{key}\":\""))? + key.len() + 4;
    let mut value = String::new();
    let mut chars = json[start..].chars();
    loop {
        match chars.next()? {
            '"' => return Some(value),
            '\\' => value.push(chars.next()?),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_key() {
        let json = r#"{"packages":[{"workspace_root":"/no"}],"target_directory":"/a \"b\"/t","workspace_root":"/a"}"#;
        assert_eq!(json_string(json, "target_directory").as_deref(), Some("/a \"b\"/t"));
        assert_eq!(json_string(json, "workspace_root").as_deref(), Some("/a"));
        assert_eq!(json_string(json, "other"), None);
    }

    #[test]
    fn an_unfinished_string_is_none() {
        assert_eq!(json_string(r#"{"target_directory":"/a"#, "target_directory"), None);
    }

    #[test]
    fn this_checkout_is_found() {
        let project = Project::find().unwrap();
        assert!(project.root.join("xtask/src/project.rs").is_file(), "{project:?}");
    }
}
