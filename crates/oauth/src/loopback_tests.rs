use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn get(address: SocketAddr, target: &str) -> String {
    ask(address, &format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).await
}

#[tokio::test]
async fn the_answer_with_the_state_counts_and_no_other() {
    let loopback = Loopback::bind(&LoopbackOptions::default(), None).await.unwrap();
    let address = loopback.local_addr().unwrap();
    assert_eq!(loopback.redirect_uri(), format!("http://127.0.0.1:{}/callback", address.port()));
    let state = Secret::new("S");
    let waiting = tokio::spawn(async move { loopback.receive(&state).await });
    assert!(get(address, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
    assert!(get(address, "/callback?code=x").await.starts_with("HTTP/1.1 400"));
    assert!(get(address, "/callback?code=x&state=T").await.starts_with("HTTP/1.1 400"));
    assert!(get(address, "/callback?code=x&state=S&state=S").await.starts_with("HTTP/1.1 400"));
    assert!(
        ask(address, "POST /callback?code=x&state=S HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 405")
    );
    let page = get(address, "/callback?code=%3Cb%3E&state=S").await;
    assert!(page.starts_with("HTTP/1.1 200") && !page.contains("<b>"), "{page}");
    assert!(page.contains("cache-control: no-store") && page.contains("content-security-policy"), "{page}");
    assert_eq!(waiting.await.unwrap().expose(), "code=%3Cb%3E&state=S");
}

#[tokio::test]
async fn silent_connections_do_not_hold_it_up() {
    let loopback = Loopback::bind(&LoopbackOptions::default(), None).await.unwrap();
    let address = loopback.local_addr().unwrap();
    let waiting = tokio::spawn(async move { loopback.receive(&Secret::new("S")).await });
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS - 1 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(get(address, "/callback?state=S&code=c").await.starts_with("HTTP/1.1 200"));
    assert_eq!(waiting.await.unwrap().expose(), "state=S&code=c");
}

#[tokio::test]
async fn the_registered_port_is_used_again_if_it_is_free() {
    let options = LoopbackOptions { host: "localhost".into(), ..LoopbackOptions::default() };
    let first = Loopback::bind(&options, None).await.unwrap();
    let registered = first.redirect_uri().to_owned();
    let second = Loopback::bind(&options, Some(&registered)).await.unwrap();
    assert_ne!(second.redirect_uri(), registered, "the port is taken");
    drop(first);
    let third = Loopback::bind(&options, Some(&registered)).await.unwrap();
    assert_eq!(third.redirect_uri(), registered);
    let port = third.local_addr().unwrap().port();
    let fixed = LoopbackOptions { port: Some(port), ..options };
    assert!(matches!(Loopback::bind(&fixed, None).await, Err(PromptError::Listen { .. })));
}
