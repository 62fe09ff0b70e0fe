//! Where in a message the objects stand in which the revisions differ.

/// A kind of object that some revision changed, or that holds such objects.
///
/// Only these are ever looked into. Schemas of tools, arguments, `experimental` capabilities, `_meta` and
/// `structuredContent` are their authors' own and pass as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    // What a server answers.
    InitializeResult,
    CallResult,
    ToolList,
    ResourceList,
    TemplateList,
    PromptList,
    PromptResult,
    ReadResult,
    /// Any other result.
    Result,
    Error,
    // What these are made of.
    ServerCapabilities,
    Implementation,
    Tool,
    Resource,
    Template,
    ResourceContents,
    Prompt,
    PromptArgument,
    PromptMessage,
    Content,
    Annotations,
    // What a server asks.
    Sampling,
    SamplingMessage,
    SamplingContent,
    Elicitation,
    ElicitationSchema,
    ElicitationProperty,
    // What a client says.
    InitializeParams,
    ClientCapabilities,
    SamplingCapability,
    ElicitationCapability,
    CallParams,
    CompleteParams,
    PromptReference,
    SamplingResult,
    RootList,
    Root,
    // What both say.
    Progress,
}

/// How a member holds the objects of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// It is one.
    One,
    /// It is an array of them.
    Each,
    /// It is one, or an array of them.
    OneOrEach,
    /// It is an object whose values they are.
    Values,
}

impl Part {
    /// The part that the result of `method` is.
    pub(crate) fn of_result(method: &str) -> Option<Self> {
        Some(match method {
            "initialize" => Self::InitializeResult,
            "tools/call" => Self::CallResult,
            "tools/list" => Self::ToolList,
            "resources/list" => Self::ResourceList,
            "resources/templates/list" => Self::TemplateList,
            "resources/read" => Self::ReadResult,
            "prompts/list" => Self::PromptList,
            "prompts/get" => Self::PromptResult,
            "sampling/createMessage" => Self::SamplingResult,
            "roots/list" => Self::RootList,
            _ => return None,
        })
    }

    /// The part that the parameters of the request or notification `method` are.
    pub(crate) fn of_params(method: &str) -> Option<Self> {
        Some(match method {
            "initialize" => Self::InitializeParams,
            "tools/call" => Self::CallParams,
            "completion/complete" => Self::CompleteParams,
            "sampling/createMessage" => Self::Sampling,
            "elicitation/create" => Self::Elicitation,
            "notifications/progress" => Self::Progress,
            _ => return None,
        })
    }

    /// The members of this part that hold other parts.
    pub(crate) const fn children(self) -> &'static [(&'static str, Held, Self)] {
        use Held::{Each, One, OneOrEach, Values};
        match self {
            Self::InitializeResult => {
                &[("capabilities", One, Self::ServerCapabilities), ("serverInfo", One, Self::Implementation)]
            }
            Self::CallResult => &[("content", OneOrEach, Self::Content)],
            Self::ToolList => &[("tools", Each, Self::Tool)],
            Self::ResourceList => &[("resources", Each, Self::Resource)],
            Self::TemplateList => &[("resourceTemplates", Each, Self::Template)],
            Self::PromptList => &[("prompts", Each, Self::Prompt)],
            Self::PromptResult => &[("messages", Each, Self::PromptMessage)],
            Self::ReadResult => &[("contents", Each, Self::ResourceContents)],
            Self::Resource | Self::Template | Self::SamplingContent => {
                &[("annotations", One, Self::Annotations)]
            }
            Self::Prompt => &[("arguments", Each, Self::PromptArgument)],
            Self::PromptMessage => &[("content", OneOrEach, Self::Content)],
            Self::Content => {
                &[("resource", One, Self::ResourceContents), ("annotations", One, Self::Annotations)]
            }
            Self::Sampling => &[("messages", Each, Self::SamplingMessage)],
            Self::SamplingMessage | Self::SamplingResult => &[("content", OneOrEach, Self::SamplingContent)],
            Self::Elicitation => &[("requestedSchema", One, Self::ElicitationSchema)],
            Self::ElicitationSchema => &[("properties", Values, Self::ElicitationProperty)],
            Self::InitializeParams => {
                &[("capabilities", One, Self::ClientCapabilities), ("clientInfo", One, Self::Implementation)]
            }
            Self::ClientCapabilities => &[
                ("sampling", One, Self::SamplingCapability),
                ("elicitation", One, Self::ElicitationCapability),
            ],
            Self::CompleteParams => &[("ref", One, Self::PromptReference)],
            Self::RootList => &[("roots", Each, Self::Root)],
            Self::Result
            | Self::Error
            | Self::ServerCapabilities
            | Self::Implementation
            | Self::Tool
            | Self::ResourceContents
            | Self::PromptArgument
            | Self::Annotations
            | Self::ElicitationProperty
            | Self::SamplingCapability
            | Self::ElicitationCapability
            | Self::CallParams
            | Self::PromptReference
            | Self::Root
            | Self::Progress => &[],
        }
    }

    /// Whether this part is the whole result of a request to a server.
    pub(crate) const fn is_result(self) -> bool {
        matches!(
            self,
            Self::InitializeResult
                | Self::CallResult
                | Self::ToolList
                | Self::ResourceList
                | Self::TemplateList
                | Self::PromptList
                | Self::PromptResult
                | Self::ReadResult
                | Self::Result
        )
    }

    /// Whether this part is a content block, so that its `type` has to be one that the receiver knows.
    pub(crate) const fn is_content(self) -> bool {
        matches!(self, Self::Content | Self::SamplingContent)
    }

    /// Whether a text that has none of the names of later fields needs no change as a part of this kind. Not so where
    /// content kinds or the values of fields matter.
    pub(crate) const fn only_fields(self) -> bool {
        matches!(
            self,
            Self::InitializeResult
                | Self::ToolList
                | Self::ResourceList
                | Self::TemplateList
                | Self::PromptList
                | Self::ReadResult
                | Self::CallParams
                | Self::CompleteParams
                | Self::RootList
                | Self::Progress
        )
    }
}
