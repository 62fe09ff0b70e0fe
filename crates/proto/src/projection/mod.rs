//! Messages made fit for a peer that speaks an older revision than their author.
//!
//! The author of a message (a handler, an upstream behind a gateway, a client in front of one) speaks some revision; the
//! receiver negotiated another. These functions take what the receiver's revision does not define out of the message, or
//! give it the nearest form that it does define (SEMANTICS 2, last paragraph). Which side the receiver is on follows from
//! the method, so both directions of a gateway use the same functions.
//!
//! - What the receiver's revision has passes untouched, to the byte: an object is written again only where a member of it
//!   had to change, and then its other members keep their text (digits, order, escapes).
//! - A message for the newest legacy revision is not even read, unless its author is known to be a modern peer: that is for the
//!   functions `..._for_legacy` and `..._for_modern`, whose table is in `eras.rs`.
//! - Content of a kind that the receiver does not know always becomes text; that holds for kinds that no revision defines.
//! - A result never becomes an error. A request that cannot be said is [`Unsupported`], a notification is dropped.
//! - Malformed messages pass as far as they are malformed: that is between their author and the receiver.
//!
//! What a revision introduced, and how it is taken away, stands in its own file in [`revision`](crate::revision); for a
//! receiver the files of all newer revisions are applied, newest first. A new revision is a new file.
//!
//! # Decisions
//!
//! The schemas of all legacy revisions leave every object open (none says `additionalProperties: false`), and most SDKs
//! skip fields that they do not know. Some do not, which is why fields that a later revision introduced are removed:
//! the Java SDK failed on any unknown member of `serverInfo` (java-sdk issue 76), of the objects below `capabilities` in both
//! directions (java-sdk issues 734 and 724, met by VS Code's `elicitation.form`, vscode issue 285443), and a desktop client
//! refused every call of a tool with `outputSchema` under `2025-03-26` (apollo-mcp-server pull request 657).
//! Fields that no revision defines stay: they are extensions between an author and a receiver that know each other.
//!
//! | what | since | before it |
//! |---|---|---|
//! | `audio` content | 2025-03-26 | text: type and size in bytes, in results and in sampling |
//! | `annotations` of a tool | 2025-03-26 | removed |
//! | `completions` capability | 2025-03-26 | removed; the method itself is older and is served |
//! | `message` of a progress notification | 2025-03-26 | removed |
//! | `resource_link` content | 2025-06-18 | text: title or name, URI, type, size, description (clients fail on the kind: cline issue 5208) |
//! | `structuredContent` | 2025-06-18 | removed; if there is no `content`, its JSON becomes a text block first |
//! | `outputSchema` | 2025-06-18 | removed, always together with `structuredContent`: SDKs demand the one where they saw the other |
//! | `title` of a tool | 2025-06-18 | `annotations.title`, where there is none |
//! | `title` of a resource, template, prompt, argument | 2025-06-18 | `description`, where there is none |
//! | `title` of an implementation, of a prompt reference | 2025-06-18 | removed |
//! | `_meta` of tools, resources, templates, prompts, contents, content, roots | 2025-06-18 | removed; `_meta` of results and parameters is older and stays |
//! | `annotations.lastModified` | 2025-06-18 | removed |
//! | `elicitation/create`, `elicitation` capability | 2025-06-18 | [`Unsupported`]; removed |
//! | `context` of a completion | 2025-06-18 | removed |
//! | `icons` | 2025-11-25 | removed |
//! | `description`, `websiteUrl` of an implementation | 2025-11-25 | removed |
//! | `execution` of a tool; `task` of a request; `tasks` capability | 2025-11-25 | removed: a receiver without tasks answers directly |
//! | `tasks/*`, `notifications/tasks/status`, `notifications/elicitation/complete` | 2025-11-25 | [`Unsupported`]; dropped |
//! | `notifications/cancelled` without `requestId` | 2025-11-25 | dropped |
//! | sampling with `tools`, or with `toolChoice` `required` | 2025-11-25 | [`Unsupported`]: the answer would be another one |
//! | `tool_use`, `tool_result` content in sampling | 2025-11-25 | text |
//! | several blocks in one sampling message | 2025-11-25 | one message for each; in a result one block, text if there are several |
//! | `_meta` of a sampling message | 2025-11-25 | removed |
//! | elicitation by URL | 2025-11-25 | [`Unsupported`] |
//! | `mode: "form"`, `$schema` of an elicitation | 2025-11-25 | removed |
//! | titled choices of an elicitation (`oneOf`) | 2025-11-25 | `enum` and `enumNames` |
//! | choices of several of an elicitation | 2025-11-25 | [`Unsupported`]: the answer would have another type |
//! | defaults of an elicitation, but for booleans | 2025-11-25 | removed |
//! | `sampling.tools`, `sampling.context`, `elicitation.form`, `elicitation.url` capabilities | 2025-11-25 | removed; `elicitation` as a whole where it has `url` alone |
//! | error -32042 (a URL has to be visited) | 2025-11-25 | the URLs are put into the message |
//! | `resource` content, `size` of a resource, `isError`, `instructions`, JSON Schemas | 2024-11-05 | nothing to do |

mod eras;
mod fields;
mod introduced;
mod part;
mod stateless;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod walk;

pub use eras::{
    capabilities_for_modern, introduction_for_legacy, notification_for_legacy, question_for_legacy,
    request_for_legacy, request_for_modern, result_for_legacy, result_for_modern, untagged,
};
pub use stateless::strip_stateless;

pub(crate) use eras::strip_era;

pub(crate) use fields::{Fields, array, elements, quoted};
pub(crate) use introduced::{Introduced, Kind};
pub(crate) use part::{Held, Part};
pub(crate) use walk::is_empty;

use crate::{
    jsonrpc::{ErrorObject, Notification, Raw, Reply},
    revision::Revision,
};

/// A request that has no meaning in the receiver's revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be asked of a peer that speaks {revision}")]
pub struct Unsupported {
    /// The receiver's revision.
    pub revision: Revision,
    /// What it lacks, for a person: a method, or a method and what of it.
    pub what: String,
}

impl Unsupported {
    /// The error for who asked: -32603, `data.reason` is `unsupported_by_revision`.
    #[must_use]
    pub fn to_error(&self) -> ErrorObject {
        ErrorObject::internal("unsupported_by_revision", self.to_string())
    }
}

/// The result of `method`, made fit for a receiver that speaks `revision`.
///
/// `result` may come from a server (`tools/call` …) or from a client (`sampling/createMessage`, `roots/list`). The
/// `protocolVersion` of an `initialize` result is the caller's to set.
#[must_use]
pub fn project_result(revision: Revision, method: &str, result: Raw) -> Raw {
    match Part::of_result(method) {
        Some(part) => walk::fit(revision, part, result),
        None => result,
    }
}

/// The `error` member of a response, made fit for a receiver that speaks `revision`.
#[must_use]
pub fn project_error(revision: Revision, error: Raw) -> Raw {
    walk::fit(revision, Part::Error, error)
}

/// What came of the request `method`, made fit for a receiver that speaks `revision`: [`project_result`] or
/// [`project_error`].
#[must_use]
pub fn project_reply(revision: Revision, method: &str, reply: Reply) -> Reply {
    match reply {
        Reply::Result(result) => Reply::Result(project_result(revision, method, result)),
        Reply::Error(error) => Reply::Error(project_error(revision, error)),
    }
}

/// A notification, made fit for a receiver that speaks `revision`; `None` where it cannot be said in that revision.
#[must_use]
pub fn project_notification(revision: Revision, notification: Notification) -> Option<Notification> {
    let Notification { method, params } = notification;
    let params = project_request(revision, &method, params).ok()?;
    Some(Notification { method, params })
}

/// The parameters of the request `method`, made fit for a receiver that speaks `revision`.
///
/// The request may be one of a server (sampling, elicitation, roots) or of a client (`initialize`, `tools/call` …).
///
/// # Errors
/// Where the receiver's revision has no such request, or where the answer would not be what was asked for. Whoever asked
/// is to be told with [`Unsupported::to_error`].
pub fn project_request(
    revision: Revision,
    method: &str,
    params: Option<Raw>,
) -> Result<Option<Raw>, Unsupported> {
    if walk::newer_than(revision).any(|newer| newer.methods.contains(&method)) {
        return Err(Unsupported { revision, what: method.to_owned() });
    }
    for newer in walk::newer_than(revision) {
        let missing = match &params {
            Some(params) => (newer.refuse)(method, params),
            None => (newer.refuse)(method, &Raw::empty_object()),
        };
        if let Some(missing) = missing {
            return Err(Unsupported { revision, what: format!("{method} {missing}") });
        }
    }
    Ok(match (Part::of_params(method), params) {
        (Some(part), Some(params)) => Some(walk::fit(revision, part, params)),
        (_, params) => params,
    })
}
