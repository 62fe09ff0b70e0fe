//! A handler whose calls do what their parameters say.

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply};
use bowline_server::{BoxFuture, Call, CancelReason, Hello, NoSession, Peer, RawHandler};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// What the script has seen.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) calls: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    pub(crate) ended: AtomicUsize,
    pub(crate) adopted: AtomicUsize,
    pub(crate) notified: AtomicUsize,
    /// The progress that clients told of.
    pub(crate) progress: parking_lot::Mutex<Vec<Value>>,
    pub(crate) cancelled: parking_lot::Mutex<Vec<CancelReason>>,
    /// Whether what was said after the answer was taken.
    pub(crate) said_late: Arc<parking_lot::Mutex<Vec<bool>>>,
    pub(crate) peers: parking_lot::Mutex<Vec<Peer>>,
    /// The calls of the method `keep`, which are over.
    pub(crate) kept: parking_lot::Mutex<Vec<Call>>,
    /// What the next call of the method `meanwhile` does when it is first polled.
    pub(crate) meanwhile: parking_lot::Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Lets the calls of the method `gate` go on.
    pub(crate) gate: Notify,
}

pub(crate) fn raw(value: &Value) -> Raw {
    Raw::from_value(value).unwrap()
}

pub(crate) fn progress(token: &Value, n: u64) -> Notification {
    Notification::new("notifications/progress", Some(raw(&json!({ "progressToken": token, "progress": n }))))
}

/// The script as a handler.
pub(crate) struct Scripted(pub(crate) Arc<Script>);

impl RawHandler for Scripted {
    fn initialize(&self, hello: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        let script = self.0.clone();
        Box::pin(async move {
            if let Some(pause) = hello.params.member("pause") {
                tokio::time::sleep(Duration::from_secs(pause.to().unwrap())).await;
            }
            assert!(hello.params.member("panic").is_none(), "secret");
            if hello.params.member("refuse").is_some() {
                return Err(ErrorObject::internal("refused", "no").into());
            }
            if hello.params.member("busy").is_some() {
                return Err(NoSession::Busy(ErrorObject::internal("busy", "later"), Duration::from_secs(7)));
            }
            script.peers.lock().push(hello.peer);
            Ok(raw(&json!({
                "protocolVersion": "1999-01-01",
                "capabilities": { "tools": { "listChanged": true }, "resources": { "subscribe": true } },
                "serverInfo": { "name": "script", "version": "1" },
                "unknown": 1.50,
            })))
        })
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        let script = self.0.clone();
        script.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let reply = script.run(&call).await;
            script.finished.fetch_add(1, Ordering::SeqCst);
            reply
        })
    }

    fn is_repeatable(&self, call: &Call) -> bool {
        call.params().and_then(|params| params.member("repeatable")).is_some()
    }

    fn notified(&self, _: &Peer, notification: Notification) {
        assert_ne!(&*notification.method, "panic");
        self.0.notified.fetch_add(1, Ordering::SeqCst);
        if &*notification.method == "notifications/progress" {
            self.0.progress.lock().push(notification.params.unwrap().to().unwrap());
        }
    }

    fn adopt(&self, peer: &Peer) {
        self.0.adopted.fetch_add(1, Ordering::SeqCst);
        self.0.peers.lock().push(peer.clone());
    }

    fn ended(&self, _: &Peer) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Script {
    async fn run(&self, call: &Call) -> Reply {
        let params: Value = call.params().map_or(Value::Null, |params| params.to().unwrap());
        let seconds = |name: &str| Duration::from_secs_f64(params[name].as_f64().unwrap_or(0.0));
        match call.method() {
            "echo" => Reply::Result(call.params().cloned().unwrap_or_else(Raw::empty_object)),
            // `n` progress notifications, `every` seconds apart, then the result.
            "count" => {
                let n = params["n"].as_u64().unwrap_or(0);
                for i in 1..=n {
                    tokio::time::sleep(seconds("every")).await;
                    let _ = call.notify(&progress(&json!("t"), i));
                }
                tokio::time::sleep(seconds("then")).await;
                Reply::Result(raw(&json!({ "counted": n })))
            }
            "keep" => {
                self.kept.lock().push(call.clone());
                Reply::Result(Raw::empty_object())
            }
            "gate" => {
                self.gate.notified().await;
                Reply::Result(raw(&json!("open")))
            }
            // Something that happens between the arrival of a call and its registration.
            "meanwhile" => {
                let happens = self.meanwhile.lock().take();
                if let Some(happens) = happens {
                    happens();
                }
                let reason = call.cancelled().await;
                self.cancelled.lock().push(reason);
                std::future::pending().await
            }
            "stubborn" => {
                let reason = call.cancelled().await;
                self.cancelled.lock().push(reason);
                std::future::pending().await
            }
            // Ends as soon as it is cancelled, and says so.
            "polite" => {
                call.cancelled().await;
                ErrorObject::internal("cancelled", "as you wish").into()
            }
            // Still talks when it is over.
            "talkative" => {
                let token = &params["token"];
                let _ = call.notify(&progress(token, 1));
                call.cancelled().await;
                tokio::time::sleep(seconds("after")).await;
                self.said_late.lock().push(call.notify(&progress(token, 2)));
                std::future::pending().await
            }
            // Answers at once; something that it started talks on.
            "left_behind" => {
                let (call, said_late) = (call.clone(), self.said_late.clone());
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    call.close_connection();
                    let said = call.notify(&progress(&json!("t"), 1));
                    let asked = matches!(call.ask("roots/list", None).await, Reply::Result(_));
                    said_late.lock().extend([said, asked]);
                });
                Reply::Result(raw(&json!("done")))
            }
            // Says, after a while, by whom it was called and how.
            "who" => {
                tokio::time::sleep(seconds("then")).await;
                Reply::Result(raw(&json!({
                    "principal": call.peer().principal(),
                    "of_the_request": call.parts().extensions.get::<bowline_server::Principal>().map(|who| who.0.clone()),
                    "headers": call.parts().headers.len(),
                    "method": call.parts().method.as_str(),
                    "token": call.progress_token(),
                })))
            }
            "close" => {
                call.close_connection();
                tokio::time::sleep(seconds("then")).await;
                Reply::Result(raw(&json!("closed")))
            }
            "ask" => {
                tokio::time::sleep(seconds("after")).await;
                let mut question = json!({ "message": "?" });
                if let Some(token) = params.get("token") {
                    question["_meta"] = json!({ "progressToken": token, "other": 1 });
                }
                if let Some(url) = params.get("url") {
                    question["mode"] = json!("url");
                    question["url"] = url.clone();
                }
                match call.ask("elicitation/create", Some(raw(&question))).await {
                    Reply::Result(answer) => Reply::Result(raw(&json!({ "answer": answer }))),
                    Reply::Error(error) => Reply::Error(error),
                }
            }
            "big" => Reply::Result(raw(&json!("x".repeat(params["bytes"].as_u64().unwrap() as usize)))),
            "tools/call" => Reply::Result(raw(&json!({
                "content": [{ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" }],
                "structuredContent": { "n": 1 },
            }))),
            "panic" => panic!("secret"),
            "resources/subscribe" | "logging/setLevel" => Reply::Result(Raw::empty_object()),
            method => ErrorObject::method_not_found(method).into(),
        }
    }
}
