//! What an author of a server can get wrong.

/// What an author of a server got wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two things of one kind have the same name.
    #[error("two {kind}s have the name {name:?}")]
    Duplicate {
        /// What kind of thing.
        kind: &'static str,
        /// The name, or the URI.
        name: String,
    },
    /// A tool has a name that the protocol does not allow.
    #[error("{0:?} is no name for a tool: 1 to 128 characters of A-Z, a-z, 0-9, \"_\", \".\" and \"-\"")]
    ToolName(String),
    /// A name or a URI is empty.
    #[error("a {0} has an empty name or URI")]
    Empty(&'static str),
    /// A schema is none.
    #[error("the {which} schema of {name:?}: {why}")]
    Schema {
        /// `input` or `output`.
        which: &'static str,
        /// The tool, or the prompt.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A template is none.
    #[error("the template {template:?}: {why}")]
    Template {
        /// The template.
        template: String,
        /// What is wrong with it.
        why: String,
    },
    /// A completion is of something that is not there.
    #[error("a completion is for the argument {argument:?} of {reference}, which the server does not have")]
    Completion {
        /// What it is of.
        reference: String,
        /// The argument.
        argument: String,
    },
    /// [`crate::ServerBuilder::with_state`] came after a handler.
    #[error(
        "with_state comes first, before the tools, resources, prompts and completions that use the state"
    )]
    StateAfterHandlers,
    /// Something that was to be removed is not there.
    #[error("there is no {kind} {name:?} to remove")]
    NothingToRemove {
        /// What kind of thing.
        kind: &'static str,
        /// The name, or the URI.
        name: String,
    },
    /// A definition is not expressible as JSON.
    #[error("the definition of {name:?} cannot be written as JSON: {why}")]
    Definition {
        /// The name, or the URI.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}
