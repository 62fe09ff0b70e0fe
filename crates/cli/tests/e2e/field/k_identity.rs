//! K: the right answer to the right caller.

use crate::common::{assert_error, fixture, serve};
use bowline_testkit::{Session, text_of};
use serde_json::json;

#[tokio::test]
async fn k2_equal_ids_without_sessions_meet_nobody() {
    let tokens = "ann=ann-0123456789abcdef,ben=ben-0123456789abcdef";
    let stateless = fixture().with("--session-mode stateless").env("BOWLINE_AUTH_TOKENS", tokens);
    let program = stateless.start().await;
    let calls = (0..40_u64).map(|n| {
        let nobody = Session::none(program.address());
        tokio::spawn(async move {
            let text = format!("caller {n}");
            let mut message = nobody.tool("echo", &json!({ "text": text }));
            message["id"] = json!(n / 2 % 10);
            let caller =
                ["Bearer ann-0123456789abcdef", "Bearer ben-0123456789abcdef"][usize::from(n % 2 == 0)];
            for _ in 0..3 {
                let mut answer =
                    nobody.send("POST", &[("Authorization", caller)], &message.to_string()).await;
                assert_eq!(answer.status(), 200);
                assert_eq!(text_of(&answer.response().await), text);
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn k3_ids_come_back_to_the_letter_or_are_refused() {
    for options in ["", "--response sse"] {
        let program = serve(options).await;
        let session = program.client().await;
        for id in ["0", "-1", "\"0\"", "\"init-1\"", "\"\"", "9007199254740992", "\"é\""] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x/custom","params":{{}}}}"#);
            let text = session.send("POST", &[], &body).await.text().await;
            assert!(text.contains(&format!(r#""id":{id}"#)), "{options} {id}: {text}");
        }
        for id in ["1.5", "null", "true", "{}", "[1]"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_error(&mut session.send("POST", &[], &body).await, 400, -32600, id).await;
        }
    }
}
