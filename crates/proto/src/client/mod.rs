//! What a client decides: SEMANTICS 7.
//!
//! - [`Delivery`]: whether a request is sent, sent again, or given up (7.3 to 7.5)
//! - [`CallStream`]: the stream of one call over any number of connections, until the response (7.1 to 7.3)
//! - [`Standalone`]: the stream that belongs to no call (7.7)
//! - [`after_discover`], [`after_initialize`]: which era the server speaks (7.6)
//! - [`HeaderPlan`], [`encode_value`]: what is mirrored into headers from `2026-07-28` on
//! - [`Outcome`]: results that are not the last word
//! - [`form_defaults`], [`ListCache`], [`ResumeToken`]

mod cache;
mod config;
mod delivery;
mod era;
mod error;
mod form;
mod mirror;
mod outcome;
#[cfg(test)]
mod properties;
mod standalone;
mod stream;
mod token;

pub use cache::{Freshness, ListCache};
pub use config::ReconnectPolicy;
pub use delivery::{Answer, Delivery, DeliveryPolicy, Step};
pub use era::{AfterDiscover, AfterInitialize, MODERN, after_discover, after_initialize};
pub use error::{ClientError, ClientErrorKind};
pub use form::form_defaults;
pub use mirror::{HeaderPlan, PlanError, encode_value, mirrored_name, request_meta};
pub use outcome::{Outcome, Question, TaskState, TaskStatus};
pub use standalone::{Standalone, StandaloneAction};
pub use stream::{Action, CallStream, StreamEnd};
pub use token::{ResumePlace, ResumeToken};
