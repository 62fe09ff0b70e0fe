//! `subscriptions/listen`: what a client wants to hear of, and how it is told.

use super::{meta::SUBSCRIPTION_ID, tasks};
use crate::{
    jsonrpc::{Notification, Raw, RequestId},
    projection::elements,
};
use serde_json::json;
use std::collections::BTreeSet;

/// How many resources one request may listen to.
pub const MAX_RESOURCES: usize = 1_000;

/// The longest URI that is listened to, in bytes.
pub const MAX_URI_BYTES: usize = 8 * 1024;

/// How many tasks one request may listen to.
pub const MAX_TASKS: usize = 100;

/// What is listened to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenFilter {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Changes of the list of resources.
    pub resources: bool,
    /// Changes of these resources.
    pub uris: BTreeSet<String>,
    /// These tasks, by id.
    pub tasks: BTreeSet<String>,
}

impl ListenFilter {
    /// Reads `params.notifications`. Kinds that nobody here knows are not wanted.
    ///
    /// # Errors
    /// What is missing or of another kind, for the sender.
    pub fn read(params: Option<&Raw>) -> Result<Self, String> {
        let wanted = params.and_then(|params| params.member("notifications")).filter(Raw::is_object);
        let wanted = wanted.ok_or("params.notifications is missing, or no object")?;
        let flag = |name: &str| match wanted.member(name).as_ref().map(Raw::as_str) {
            None | Some("null" | "false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(format!("notifications.{name} has to be true or false")),
        };
        let mut uris = BTreeSet::new();
        if let Some(list) = wanted.member("resourceSubscriptions").filter(|list| list.as_str() != "null") {
            let not_texts = || "notifications.resourceSubscriptions has to be a list of URIs".to_owned();
            let list = elements(&list).ok_or_else(not_texts)?;
            if list.len() > MAX_RESOURCES {
                return Err(format!("one request may listen to {MAX_RESOURCES} resources"));
            }
            for uri in list {
                let uri = uri.string().ok_or_else(not_texts)?;
                if uri.len() > MAX_URI_BYTES {
                    return Err(format!("a URI of more than {MAX_URI_BYTES} bytes"));
                }
                uris.insert(uri);
            }
        }
        let mut tasks = BTreeSet::new();
        if let Some(list) = wanted.member("taskIds").filter(|list| list.as_str() != "null") {
            let not_texts = || "notifications.taskIds has to be a list of ids of tasks".to_owned();
            let list = elements(&list).ok_or_else(not_texts)?;
            if list.len() > MAX_TASKS {
                return Err(format!("one request may listen to {MAX_TASKS} tasks"));
            }
            for id in list {
                tasks.insert(id.string().ok_or_else(not_texts)?);
            }
        }
        Ok(Self {
            tools: flag("toolsListChanged")?,
            prompts: flag("promptsListChanged")?,
            resources: flag("resourcesListChanged")?,
            uris,
            tasks,
        })
    }

    /// What of this a server with these capabilities announces. Which of the tasks there are is not known here: they stay.
    #[must_use]
    pub fn honoured(&self, capabilities: &Raw) -> Self {
        let says = |name: &str, flag: &str| {
            capabilities
                .member(name)
                .and_then(|capability| capability.member(flag))
                .is_some_and(|flag| flag.as_str() == "true")
        };
        let subscribes = says("resources", "subscribe");
        Self {
            tools: self.tools && says("tools", "listChanged"),
            prompts: self.prompts && says("prompts", "listChanged"),
            resources: self.resources && says("resources", "listChanged"),
            uris: if subscribes { self.uris.clone() } else { BTreeSet::new() },
            tasks: self.tasks.clone(),
        }
    }

    /// Whether this notification was asked for.
    #[must_use]
    pub fn wants(&self, notification: &Notification) -> bool {
        match &*notification.method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resources,
            "notifications/resources/updated" => {
                let uri = notification.params.as_ref().and_then(|params| params.member("uri")?.string());
                uri.is_some_and(|uri| self.uris.contains(&uri))
            }
            tasks::NOTIFICATION => {
                let id = notification.params.as_ref().and_then(|params| params.member("taskId")?.string());
                id.is_some_and(|id| self.tasks.contains(&id))
            }
            _ => false,
        }
    }

    /// The filter as it stands in an acknowledgement: only what is listened to.
    fn to_value(&self) -> serde_json::Value {
        let mut value = json!({});
        for (name, wanted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if wanted {
                value[name] = true.into();
            }
        }
        if !self.uris.is_empty() {
            value["resourceSubscriptions"] = json!(self.uris);
        }
        if !self.tasks.is_empty() {
            value["taskIds"] = json!(self.tasks);
        }
        value
    }
}

/// The first message of a listening stream: what of the wish is honoured.
#[must_use]
pub fn acknowledged(id: &RequestId, filter: &ListenFilter) -> Notification {
    let params = json!({ "_meta": { SUBSCRIPTION_ID: id }, "notifications": filter.to_value() });
    Notification::new("notifications/subscriptions/acknowledged", Raw::from_value(&params).ok())
}

/// A notification as it goes on the stream of the listening request `id`.
#[must_use]
pub fn tagged(notification: Notification, id: &RequestId) -> Notification {
    let Notification { method, params } = notification;
    let id = Raw::from_trusted(id.to_json().into());
    let params = params.unwrap_or_else(Raw::empty_object);
    let meta = params.member("_meta").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    let meta = meta.with_member(SUBSCRIPTION_ID, &id).unwrap_or(meta);
    let params = params.with_member("_meta", &meta).unwrap_or(params);
    Notification { method, params: Some(params) }
}

/// The result that ends a listening stream in order.
#[must_use]
pub fn ended(id: &RequestId) -> Raw {
    let id = Raw::from_trusted(id.to_json().into());
    Raw::from_members([("_meta", Raw::from_members([(SUBSCRIPTION_ID, id)]))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value).unwrap()
    }

    fn read(notifications: &Value) -> Result<ListenFilter, String> {
        ListenFilter::read(Some(&raw(&json!({ "notifications": notifications }))))
    }

    #[test]
    fn only_what_was_asked_for_is_wanted() {
        let filter = read(
            &json!({ "toolsListChanged": true, "resourceSubscriptions": ["a:1"], "taskIds": ["t"], "x": 1 }),
        )
        .unwrap();
        let note = |method: &'static str, params: Value| Notification::new(method, Some(raw(&params)));
        for (notification, wanted) in [
            (note("notifications/tools/list_changed", json!({})), true),
            (note("notifications/prompts/list_changed", json!({})), false),
            (note("notifications/resources/list_changed", json!({})), false),
            (note("notifications/resources/updated", json!({ "uri": "a:1" })), true),
            (note("notifications/resources/updated", json!({ "uri": "a:2" })), false),
            (note("notifications/resources/updated", json!({})), false),
            (note("notifications/tasks", json!({ "taskId": "t" })), true),
            (note("notifications/tasks", json!({ "taskId": "u" })), false),
            (note("notifications/tasks", json!({})), false),
            (note("notifications/message", json!({})), false),
            (note("notifications/progress", json!({})), false),
        ] {
            assert_eq!(filter.wants(&notification), wanted, "{}", notification.method);
        }
        assert_eq!(read(&json!({})), Ok(ListenFilter::default()));
    }

    #[test]
    fn malformed_filters_are_refused() {
        assert!(ListenFilter::read(None).is_err());
        for notifications in [
            json!(7),
            json!({ "toolsListChanged": "yes" }),
            json!({ "resourceSubscriptions": "a:1" }),
            json!({ "resourceSubscriptions": [1] }),
            json!({ "resourceSubscriptions": ["x".repeat(MAX_URI_BYTES + 1)] }),
            json!({ "resourceSubscriptions": vec!["x"; MAX_RESOURCES + 1] }),
            json!({ "taskIds": "t" }),
            json!({ "taskIds": [1] }),
            json!({ "taskIds": vec!["t"; MAX_TASKS + 1] }),
        ] {
            assert!(read(&notifications).is_err(), "{notifications}");
        }
    }

    #[test]
    fn only_what_the_server_announces_is_honoured() {
        let all = read(&json!({
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["a:1"],
        }))
        .unwrap();
        let honoured = |capabilities: Value| all.honoured(&raw(&capabilities)).to_value();
        assert_eq!(honoured(json!({})), json!({}));
        assert_eq!(
            honoured(
                json!({ "tools": { "listChanged": true }, "prompts": {}, "resources": { "subscribe": true } })
            ),
            json!({ "toolsListChanged": true, "resourceSubscriptions": ["a:1"] })
        );
        assert_eq!(
            honoured(json!({ "resources": { "listChanged": true } })),
            json!({ "resourcesListChanged": true })
        );
        // Which tasks there are, only the store knows.
        let tasks = read(&json!({ "taskIds": ["b", "a"] })).unwrap();
        assert_eq!(tasks.honoured(&raw(&json!({}))).to_value(), json!({ "taskIds": ["a", "b"] }));
    }

    #[test]
    fn every_message_carries_the_id_of_its_request() {
        for id in [RequestId::from(7), RequestId::from("a")] {
            let key =
                |raw: Option<Raw>| raw.unwrap().to::<Value>().unwrap()["_meta"][SUBSCRIPTION_ID].clone();
            let expected = serde_json::to_value(&id).unwrap();
            assert_eq!(key(acknowledged(&id, &ListenFilter::default()).params), expected);
            assert_eq!(key(Some(ended(&id))), expected);
            let bare = tagged(Notification::new("notifications/tools/list_changed", None), &id);
            assert_eq!(key(bare.params), expected);
            let with = Notification::new("n", Some(raw(&json!({ "uri": "a", "_meta": { "x": 1 } }))));
            let with = tagged(with, &id).params.unwrap().to::<Value>().unwrap();
            assert_eq!(with, json!({ "uri": "a", "_meta": { "x": 1, SUBSCRIPTION_ID: expected } }));
        }
    }
}
