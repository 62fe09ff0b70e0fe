use std::time::Duration;

use parking_lot::Mutex;

use super::*;

struct Typed(Mutex<std::vec::IntoIter<&'static str>>);

impl Lines for Typed {
    fn next(&self) -> BoxFuture<'_, Option<String>> {
        let line = self.0.lock().next().map(str::to_owned);
        Box::pin(async move { line })
    }
}

fn prompt(lines: Vec<&'static str>) -> (BrowserPrompt, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&said);
    let say: Say = Arc::new(move |text| notes.lock().push(text.to_owned()));
    let prompt = BrowserPrompt::new(LoopbackOptions::default(), Opener::Never, say);
    (prompt.with_lines(Arc::new(Typed(Mutex::new(lines.into_iter())))), said)
}

fn question(deadline: Duration) -> Question {
    Question { url: Url::parse("https://as.example/authorize?x=1").unwrap(), state: "S".into(), deadline }
}

#[tokio::test]
async fn a_pasted_address_is_an_answer() {
    let lines = vec![
        "",
        "what?",
        "http://127.0.0.1:1/callback?code=c&state=T",
        "  http://127.0.0.1:1/callback?code=c&state=S#x ",
    ];
    let (prompt, said) = prompt(lines);
    let waiting = prompt.begin(None).await.unwrap();
    assert!(waiting.redirect_uri().starts_with("http://127.0.0.1:"));
    let answer = waiting.authorize(question(Duration::from_secs(30))).await.unwrap();
    assert_eq!(answer.expose(), "code=c&state=S");
    let said = said.lock();
    assert!(said[0].contains("https://as.example/authorize?x=1"), "{said:?}");
    assert_eq!(said.len(), 4, "the address, the hint, and two lines that were no answer: {said:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_forever() {
    let (prompt, _) = prompt(vec![]);
    let answer = prompt.begin(None).await.unwrap().authorize(question(Duration::from_secs(300))).await;
    assert!(matches!(answer, Err(PromptError::TimedOut(_))), "{answer:?}");
}

#[tokio::test]
async fn only_addresses_of_the_web_are_opened() {
    let program = Opener::Program("true".into());
    assert!(!open(&program, &Url::parse("file:///etc/passwd").unwrap()));
    assert!(open(&program, &Url::parse("https://a.example/").unwrap()));
    assert!(!open(&Opener::Program("/nowhere/at-all".into()), &Url::parse("https://a.example/").unwrap()));
    assert!(!open(&Opener::Never, &Url::parse("https://a.example/").unwrap()));
}
