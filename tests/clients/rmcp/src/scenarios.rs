//! The scenarios that any server is good for.

use crate::everything::everything;
use crate::facade::facade;
use crate::options::{Mode, Options};
use crate::report::{Failed, Outcome, Report, expect};
use crate::session::{Answers, Session, model};
use crate::wire::Wire;
use rmcp::model::{CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::{Duration, Instant};

pub async fn run(options: &Options, report: &Report) {
    let Some(mut session) = report.step("connect", connect(options)).await else { return };
    match options.scenario.as_str() {
        "everything" => everything(&session, report).await,
        "facade" => facade(&session, report).await,
        "cancel" => drop(report.check("cancel", cancel(&session, options)).await),
        "many" => drop(report.check("many", many(&session, options)).await),
        "jobs" => drop(report.check("jobs", jobs(&session, options)).await),
        name => drop(report.check(name, slow(&session, options)).await),
    }
    let wire = session.wire.clone();
    report
        .check("close", async {
            session.client.close().await?;
            Ok(wire.summary())
        })
        .await;
    if options.scenario == "everything" && wire.seen().session_id.is_some() {
        report.check("terminate", terminated(&wire)).await;
        report.check("gone", gone(&wire, options)).await;
    }
}

async fn connect(options: &Options) -> Result<(Session, Value), Failed> {
    let wire = Wire::default();
    let config = model(json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": { "form": {} }, "sampling": {}, "roots": { "listChanged": true } },
        "clientInfo": { "name": "bowline-test", "version": "1.0.0" },
    }))?;
    let answers = Answers { config, asked: std::sync::Arc::default() };
    let asked = answers.asked.clone();
    let transport = StreamableHttpClientTransport::with_client(
        wire.clone(),
        StreamableHttpClientTransportConfig::with_uri(options.url.as_str()),
    );
    let preferred_versions = || vec![rmcp::model::ProtocolVersion::V_2026_07_28];
    let lifecycle = match options.mode {
        Mode::Legacy => ClientLifecycleMode::Initialize,
        Mode::Discover => ClientLifecycleMode::Discover { preferred_versions: preferred_versions() },
        Mode::Auto => {
            ClientLifecycleMode::Auto { preferred_versions: preferred_versions(), legacy_version: None }
        }
    };
    let client = answers.serve_with_lifecycle(transport, lifecycle).await?;
    let info = client.peer_info().map(|info| serde_json::to_value(&*info)).transpose()?.unwrap_or_default();
    let revision = info["protocolVersion"].clone();
    let session = wire.seen().session_id.is_some();
    let details = json!({ "revision": revision, "server": info["serverInfo"]["name"], "session": session });
    expect(
        revision == options.revision,
        format!("negotiated {revision}, not {}", options.revision),
        &details,
    )?;
    Ok((Session { client, wire, asked }, details))
}

/// One long call.
async fn slow(session: &Session, options: &Options) -> Outcome {
    let (name, arguments, wanted) = session.long_call(options.seconds).await?;
    let (before, start) = (session.wire.seen().responses, Instant::now());
    session.progress();
    let text = session.text(name, arguments).await?;
    let seconds = start.elapsed().as_secs_f64();
    if options.expect_once {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let seen = session.wire.seen();
    let progress = session.progress();
    let repeats = progress.windows(2).filter(|pair| pair[1] <= pair[0]).count();
    let results = seen.responses - before;
    let mut details = session.wire.summary();
    details["results"] = json!(results);
    details["progress"] = json!(progress.len());
    details["repeats"] = json!(repeats);
    details["seconds"] = json!((seconds * 1000.0).round() / 1000.0);
    let least = if options.scenario == "cut" { options.min_resumes } else { 0 };
    expect(text.contains(wanted), format!("not the result of the call: {text}"), &details)?;
    expect(seconds >= options.seconds * 0.98, "the result came before the call can have ended", &details)?;
    expect(
        !options.expect_once || results == 1,
        format!("received {results} responses instead of one"),
        &details,
    )?;
    expect(
        !options.no_repeats || repeats == 0,
        format!("{repeats} progress notifications came again"),
        &details,
    )?;
    let resumes = seen.resumes;
    expect(resumes >= least, format!("resumed {resumes} times, not {least}: was it cut at all?"), &details)?;
    Ok(details)
}

/// One long call that is cancelled after half a second: no response may come, and the session goes on.
async fn cancel(session: &Session, options: &Options) -> Outcome {
    let (name, arguments, _) = session.long_call(options.seconds).await?;
    let before = session.wire.seen().responses;
    let params: CallToolRequestParams = model(json!({ "name": name, "arguments": arguments }))?;
    let request = ClientRequest::CallToolRequest(rmcp::model::Request::new(params));
    let handle = session.client.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    handle.cancel(Some("the test does not want it any more".into())).await?;
    tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
    let results = session.wire.seen().responses - before;
    expect(results == 0, format!("{results} responses came to a cancelled call"), &session.wire.summary())?;
    session.client.list_all_tools().await?;
    Ok(session.wire.summary())
}

/// Many echo calls at a time: an answer that goes to the wrong call is seen.
async fn many(session: &Session, options: &Options) -> Outcome {
    let tools = session.client.list_all_tools().await?;
    let echo = tools.iter().find(|tool| tool.name == "echo");
    let echo = echo.ok_or_else(|| Failed::new("there is no tool echo", Value::Null))?;
    let argument =
        echo.input_schema["properties"].as_object().and_then(|object| object.keys().next().cloned());
    let argument = argument.ok_or_else(|| Failed::new("echo has no argument", Value::Null))?;
    let (next, right, start) = (Cell::new(0), Cell::new(0), Instant::now());
    let worker = async || {
        let mut wrong = Vec::new();
        while next.get() < options.calls {
            let number = next.replace(next.get() + 1);
            let sent = format!("{number} ✓ {}", "ab9-".repeat(number % 50));
            let call = session.text("echo", json!({ argument.as_str(): sent }));
            let answer = match tokio::time::timeout(Duration::from_secs(60), call).await {
                Ok(Ok(text)) => text,
                Ok(Err(failed)) => failed.error,
                Err(_) => "no answer within 60 s".into(),
            };
            if answer == sent || answer == format!("Echo: {sent}") {
                right.set(right.get() + 1);
            } else {
                wrong.push(json!({ "sent": sent, "answer": answer }));
            }
        }
        wrong
    };
    let workers = (0..options.parallel).map(|_| worker());
    let wrong: Vec<Value> = futures::future::join_all(workers).await.concat();
    let mut details = session.wire.summary();
    details["calls"] = json!(options.calls);
    details["right"] = json!(right.get());
    details["seconds"] = json!((start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0);
    details["wrong"] = json!(wrong.iter().take(5).collect::<Vec<_>>());
    expect(
        wrong.is_empty() && right.get() == options.calls,
        format!("{} wrong answers", wrong.len()),
        &details,
    )?;
    Ok(details)
}

/// Jobs one after another, several at a time, until a file is there: each takes `--seconds` to `--longest`, reports and, every other
/// one, asks. Every one must end with its own result, which is received once.
async fn jobs(session: &Session, options: &Options) -> Outcome {
    let before = session.wire.seen().responses;
    let (next, right) = (Cell::new(0_u32), Cell::new(0_u32));
    let latest = Cell::new(0.0_f64);
    let worker = async || {
        let mut wrong = Vec::new();
        while !std::path::Path::new(&options.until).exists() {
            let number = next.replace(next.get() + 1);
            let key = format!("{}-{number}", options.name);
            // Spread evenly, the same in every run.
            let spread = (f64::from(number) * 0.618).fract();
            let seconds = options.seconds + (options.longest - options.seconds) * spread;
            let ask = number % 2 == 0;
            let arguments = json!({ "file": options.file, "key": key, "ms": (seconds * 1000.0).round() as u64,
                "progress": seconds.round().max(2.0) as u64, "ask": ask });
            let begun = Instant::now();
            let limit = Duration::from_secs_f64(seconds + 60.0);
            let answer = match tokio::time::timeout(limit, session.text("job", arguments)).await {
                Ok(Ok(text)) => text,
                Ok(Err(failed)) => failed.error,
                Err(_) => format!("no answer within {limit:?}"),
            };
            let after = begun.elapsed().as_secs_f64();
            latest.set(latest.get().max(after - seconds));
            if answer == format!("job {key}: {}", if ask { "Ann Example" } else { "-" }) {
                right.set(right.get() + 1);
            } else {
                wrong.push(json!({ "key": key, "seconds": seconds, "after": after, "answer": answer }));
            }
        }
        wrong
    };
    let workers = (0..options.parallel).map(|_| worker());
    let wrong: Vec<Value> = futures::future::join_all(workers).await.concat();
    let results = session.wire.seen().responses - before;
    let mut details = session.wire.summary();
    details["calls"] = json!(next.get());
    details["right"] = json!(right.get());
    details["results"] = json!(results);
    details["progressed"] = json!(session.progress().len());
    details["latest"] = json!((latest.get() * 10.0).round() / 10.0);
    details["wrong"] = json!(wrong.iter().take(5).collect::<Vec<_>>());
    details["asked"] = json!(session.asked.lock().expect("nobody panics while it is held").elicitation);
    expect(
        wrong.is_empty() && right.get() == next.get(),
        format!("{} wrong answers", wrong.len()),
        &details,
    )?;
    expect(
        u64::from(next.get()) == results,
        format!("received {results} responses to {} calls", next.get()),
        &details,
    )?;
    Ok(details)
}

/// The SDK ends its session when it is closed.
async fn terminated(wire: &Wire) -> Outcome {
    let statuses = json!(wire.seen().statuses);
    expect(statuses["DELETE ok"] == 1, "DELETE was not answered well", &json!({ "statuses": statuses }))?;
    Ok(Value::Null)
}

async fn gone(wire: &Wire, options: &Options) -> Outcome {
    let id = wire.seen().session_id.unwrap_or_default();
    let response = reqwest::Client::new()
        .post(&options.url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-session-id", id)
        .header("mcp-protocol-version", &options.revision)
        .body(json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string())
        .send()
        .await?;
    let status = response.status().as_u16();
    let details = json!({ "status": status });
    expect(status == options.gone_status, format!("status {status}, not {}", options.gone_status), &details)?;
    Ok(details)
}
