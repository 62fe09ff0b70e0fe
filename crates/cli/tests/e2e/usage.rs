//! Help, wrong usage, and what is found wrong before anything is started.

use crate::support::{bowline, run};

#[tokio::test]
async fn help_is_on_stdout() {
    let ended = run(bowline(&["serve", "--help"])).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    for word in
        ["bowline serve [OPTIONS] -- COMMAND", "Exit codes", "BOWLINE_MAX_CONNECTION", "/readyz", "SIGTERM"]
    {
        assert!(ended.stdout.contains(word), "{word}");
    }
    let version = run(bowline(&["--version"])).await;
    assert_eq!(version.stdout.trim(), concat!("bowline ", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn help_does_not_show_what_variables_hold() {
    let mut command = bowline(&["serve", "--help"]);
    command.env("BOWLINE_STDIO", "x --token hunter2").env("BOWLINE_KEY", "hunter2");
    let ended = run(command).await;
    assert!(ended.code == Some(0) && !ended.stdout.contains("hunter2"), "{}", ended.stdout);
}

#[tokio::test]
async fn wrong_usage_is_2_and_says_what_to_do() {
    for (args, message) in [
        (&[][..], "Usage: bowline <COMMAND>"),
        (&["serve"], "no command: say which MCP server to serve"),
        (&["serve", "--stdio", "cat", "--", "cat"], "both --stdio and a command"),
        (&["serve", "--json-hold", "5", "--", "cat"], "5ms, 5s, 5m or 5h"),
        (&["serve", "--allow-origin", "x", "--", "cat"], "is not an origin"),
        (&["serve", "--allow-host", "http://x", "--", "cat"], "is not a host"),
        (&["serve", "--cors", "--", "cat"], "--allow-origin"),
        (&["serve", "--nonsense", "--", "cat"], "--nonsense"),
    ] {
        let ended = run(bowline(args)).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{args:?}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn variables_are_read_and_named_in_errors() {
    let mut command = bowline(&["serve", "--", "cat"]);
    command.env("BOWLINE_KEEP_ALIVE", "15");
    let ended = run(command).await;
    assert!(ended.code == Some(2) && ended.stderr.contains("--keep-alive"), "{}", ended.stderr);

    let mut command = bowline(&["serve", "--", "cat"]);
    command.env("BOWLINE_KEY", "hunter2");
    let ended = run(command).await;
    assert!(ended.code == Some(2) && ended.stderr.contains("BOWLINE_KEY"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_command_that_is_missing_is_1() {
    let ended = run(bowline(&["serve", "--port", "0", "--", "no-such-server"])).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("\"no-such-server\" was not found in PATH"), "{}", ended.stderr);
    let ended = run(bowline(&["serve", "--port", "0", "--cwd", "/no/such/folder", "--", "cat"])).await;
    assert!(ended.code == Some(1) && ended.stderr.contains("/no/such/folder"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_port_in_use_is_1_and_names_who_has_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = run(bowline(&["serve", "--port", &port, "--", "cat"])).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains(&format!("127.0.0.1:{port} is in use")), "{}", ended.stderr);
    assert!(ended.stderr.contains("--port N"), "{}", ended.stderr);
    #[cfg(target_os = "linux")]
    assert!(ended.stderr.contains(&format!("(pid {})", std::process::id())), "{}", ended.stderr);
}
