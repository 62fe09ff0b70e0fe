//! What the client prints: one JSON object a line and step, `{"step": NAME, "ok": true|false, "ms": N, ...}`, the last one
//! being the step `done`. Exit status: 0 if every step passed, 1 if one failed, 3 if the deadline passed.

use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a step says beside its name, or why it failed and what it saw.
pub type Outcome = Result<Value, Failed>;

/// A step that failed.
#[derive(Debug)]
pub struct Failed {
    pub error: String,
    pub details: Value,
}

impl Failed {
    pub fn new(error: impl Into<String>, details: Value) -> Self {
        Self { error: error.into(), details }
    }
}

impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        let (mut text, mut source) = (error.to_string(), error.source());
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::new(text, Value::Null)
    }
}

/// Fails the step with what was expected and what came.
pub fn expect(condition: bool, message: impl Into<String>, details: &Value) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(Failed::new(message, details.clone())) }
}

pub struct Report {
    passed: Cell<u32>,
    failed: Cell<u32>,
    now: Arc<Mutex<String>>,
}

impl Report {
    /// Ends the process, from a thread, when `deadline` has passed.
    pub fn new(deadline: Duration) -> Self {
        let now = Arc::new(Mutex::new("start".to_owned()));
        let during = now.clone();
        std::thread::spawn(move || {
            std::thread::sleep(deadline);
            let during = during.lock().map(|now| now.clone()).unwrap_or_default();
            let error = format!("not done after {} s", deadline.as_secs_f64());
            print(&json!({ "step": "deadline", "ok": false, "error": error, "during": during }));
            std::process::exit(3);
        });
        Self { passed: Cell::new(0), failed: Cell::new(0), now }
    }

    /// Runs one step and prints its line. When it fails, the next steps run all the same. Returns what it returned.
    pub async fn step<T>(
        &self,
        name: &str,
        work: impl Future<Output = Result<(T, Value), Failed>>,
    ) -> Option<T> {
        if let Ok(mut now) = self.now.lock() {
            name.clone_into(&mut now);
        }
        let start = Instant::now();
        let outcome = work.await;
        let mut line = Map::from_iter([("step".to_owned(), json!(name))]);
        let (returned, details) = match outcome {
            Ok((returned, details)) => {
                line.insert("ok".into(), json!(true));
                self.passed.set(self.passed.get() + 1);
                (Some(returned), details)
            }
            Err(Failed { error, details }) => {
                line.insert("ok".into(), json!(false));
                line.insert("error".into(), json!(error));
                self.failed.set(self.failed.get() + 1);
                (None, details)
            }
        };
        if let Value::Object(details) = details {
            line.extend(details);
        }
        line.insert("ms".into(), json!(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)));
        print(&Value::Object(line));
        returned
    }

    /// A step that returns nothing but its line.
    pub async fn check(&self, name: &str, work: impl Future<Output = Outcome>) -> bool {
        self.step(name, async { work.await.map(|details| ((), details)) }).await.is_some()
    }

    /// Prints the last line.
    pub fn finish(&self) -> ExitCode {
        let ok = self.failed.get() == 0 && self.passed.get() > 0;
        print(&json!({ "step": "done", "ok": ok, "steps": self.passed.get(), "broken": self.failed.get() }));
        if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn print(line: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
