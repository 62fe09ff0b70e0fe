//! What is printed, over HTTP and over stdio.

use super::{assert_prints, fixture_command, line, line_with};
use crate::common::fixture;
use bowline_testkit::Dir;
use serde_json::{Value, json};

#[tokio::test]
async fn lists() {
    let program = fixture().start().await;
    let url = program.url();
    let ended = line(&["list", url]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for part in [
        "# tools\n",
        "echo(text: string)\n    Returns the text.\n",
        "count(file: string, ms?: integer)\n",
        "# resources\nfixture://counter  counter  (text/plain)\n",
        "# templates\nfixture://item/{id}  item\n",
        "# prompts\nplain()\n    Without arguments\ngreet(name)\n",
    ] {
        assert!(ended.stdout.contains(part), "{part:?}: {}", ended.stdout);
    }
    assert_prints(&line(&["list", url, "templates"]).await, "fixture://item/{id}  item\n");
    let ended = line(&["list", url, "prompts", "resources", "-o", "json"]).await;
    let all: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(all["prompts"][1]["arguments"], json!([{ "name": "name", "required": true }]));
    assert_eq!((all["resources"].as_array().map(Vec::len), all.get("tools")), (Some(2), None));
    assert_eq!(ended.stdout.lines().count(), 1);
}

#[tokio::test]
async fn calls_with_arguments_from_everywhere() {
    let program = fixture().start().await;
    let url = program.url();
    assert_prints(&line(&["call", url, "echo", "text=a=b c"]).await, "a=b c\n");
    assert_prints(&line(&["call", url, "echo", "text:=\"j\\nk\""]).await, "j\nk\n");
    assert_prints(&line(&["call", url, "echo", "--json", r#"{"text":"json"}"#]).await, "json\n");
    assert_prints(&line_with(&["call", url, "echo", "-"], r#"{"text":"stdin"}"#).await, "stdin\n");
    assert_prints(
        &line_with(&["call", url, "echo", "--json", "-", "text=over"], r#"{"text":"stdin"}"#).await,
        "over\n",
    );
    let ended = line(&["call", url, "big", "bytes:=12", "--output", "json"]).await;
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["content"], json!([{ "type": "text", "text": "012345678901" }]));
}

/// The same with a program in the place of an address.
#[tokio::test]
async fn stdio_servers() {
    let command = fixture_command();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let with = |args: &[&'static str]| [args, &["--"], &command].concat();
    assert_prints(&line(&with(&["call", "echo", "text=hello"])).await, "hello\n");
    assert_prints(&line(&with(&["list", "templates"])).await, "fixture://item/{id}  item\n");
    assert_prints(&line(&with(&["read", "fixture://item/7"])).await, "item 7\n");
    let ended = line(&with(&["call", "die", "how=kill"])).await;
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
}

#[tokio::test]
async fn reads_prompts_and_completes() {
    let program = fixture().start().await;
    let url = program.url();
    assert_prints(&line(&["read", url, "fixture://counter"]).await, "0\n");
    assert_prints(&line(&["prompt", url, "greet", "name=Ann"]).await, "user: Hello, Ann.\n");
    assert_prints(&line(&["complete", url, "greet", "name=al"]).await, "alpha\nalps\n");
    let ended = line(&["complete", url, "fixture://item/{id}", "id=b", "-o", "json"]).await;
    assert_prints(&ended, "{\"hasMore\":false,\"total\":1,\"values\":[\"beta\"]}\n");
    let ended = line(&["read", url, "fixture://counter", "-o", "json"]).await;
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["contents"][0]["text"], "0");
}

#[tokio::test]
async fn binary_content_goes_to_files() {
    let program = fixture().start().await;
    let url = program.url();
    let dir = Dir::new();
    let folder = dir.join("out");
    let folder = folder.to_str().unwrap();
    let blocks = json!({ "blocks": [
        { "type": "text", "text": "two files" },
        { "type": "image", "mimeType": "image/png", "data": "iVBORw==" },
        { "type": "audio", "mimeType": "audio/wav", "data": "UklGRg==" },
    ] });
    let blocks = blocks.to_string();
    let ended = line(&["call", url, "show", "--json", &blocks]).await;
    assert_prints(
        &ended,
        "two files\n[image image/png, 4 bytes; --save DIR writes it to a file]\n[audio audio/wav, 4 bytes; --save DIR writes it to a file]\n",
    );
    for number in 1..=2 {
        let ended = line(&["call", url, "show", "--json", &blocks, "--save", folder]).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let file = format!("{folder}/show-{number}.png");
        assert!(ended.stdout.contains(&file), "{}", ended.stdout);
        assert_eq!(std::fs::read(&file).unwrap(), b"\x89PNG");
        assert_eq!(std::fs::read(format!("{folder}/show-{number}.wav")).unwrap(), b"RIFF");
    }
    // In JSON the content is there as it came, and the file beside it.
    let ended = line(&["call", url, "show", "--json", &blocks, "--save", folder, "-o", "json"]).await;
    assert!(
        ended.stdout.contains("iVBORw==") && ended.stderr.contains("show-3.png"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );

    // Into a pipe: the bytes.
    let output = crate::support::bowline(&["read", url, "fixture://blob"]).output().await.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &[0, 1, 2, 255][..]));
    let ended = line(&["read", url, "fixture://blob", "--save", folder]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(std::fs::read(format!("{folder}/blob-1.bin")).unwrap(), [0, 1, 2, 255]);
}

/// On a pipe: plain lines, on stderr.
#[tokio::test]
async fn progress_log_and_questions() {
    let program = fixture().start().await;
    let url = program.url();
    let ended = line(&["call", url, "talk", "pause_ms:=50", "--level", "info"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("decline"), "{}", ended.stdout);
    for part in [
        "progress 1/3\n",
        "progress 3/3\n",
        "[info fixture] about to ask\n",
        "declined, as there is no terminal",
    ] {
        assert!(ended.stderr.contains(part), "{part:?}: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains('\u{1b}'), "{:?}", ended.stderr);
}
