//! Completions and manual pages, from the definition of the command line.

use crate::support::{bowline, run};
use bowline_testkit::Dir;

#[tokio::test]
async fn completions_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = run(bowline(&["completions", shell])).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["connect", "completions", "max-connection", "ignore-tool"] {
            assert!(ended.stdout.contains(word), "{shell}: {word}");
        }
    }
    // A shell takes it.
    let script = run(bowline(&["completions", "bash"])).await.stdout;
    let checked = std::process::Command::new("bash").args(["-n", "-c", &script]).status().unwrap();
    assert!(checked.success());
    assert_eq!(run(bowline(&["completions", "cmd"])).await.code, Some(2));
}

#[tokio::test]
async fn a_page_for_each_command() {
    let ended = run(bowline(&["man"])).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains(".TH bowline 1"), "{}", ended.stdout);
    let dir = Dir::new();
    let folder = dir.join("man1");
    assert_eq!(run(bowline(&["man", folder.to_str().unwrap()])).await.code, Some(0));
    for (command, word) in
        [("serve", "drain\\-timeout"), ("connect", "ignore\\-tool"), ("call", "idempotent"), ("watch", "for")]
    {
        let page = std::fs::read_to_string(folder.join(format!("bowline-{command}.1"))).unwrap();
        assert!(page.contains(word), "{command}: {page}");
    }
    assert_eq!(run(bowline(&["man", "/dev/null/x"])).await.code, Some(1));
}
