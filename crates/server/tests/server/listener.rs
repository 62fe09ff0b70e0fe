//! The listener over real sockets: who makes room for whom.

use crate::client::{Server, initialize};
use bowline_server::{ListenerOptions, serve};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(20);

async fn listen(server: &Server, options: ListenerOptions) -> (SocketAddr, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(serve(listener, server.endpoint.clone(), options, std::future::pending())))
}

async fn post(stream: &mut TcpStream, body: &str, session: &str) {
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n{session}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// The next answer, which is one JSON value.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    let read = async {
        while !text.ends_with('}') {
            let read = stream.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "the connection ended: {text}");
            text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
    };
    timeout(PATIENCE, read).await.expect("an answer");
    text
}

#[tokio::test]
async fn a_connection_that_becomes_idle_makes_room_and_a_busy_one_is_not_cut() {
    let server = Server::new();
    let mut options = ListenerOptions::default();
    options.max_connections = 1;
    let (address, serving) = listen(&server, options).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    post(&mut first, &initialize("2025-11-25").to_string(), "").await;
    let hello = answer(&mut first).await;
    let session = hello.lines().find(|line| line.starts_with("mcp-session-id")).unwrap().to_owned() + "\r\n";
    // The one place is busy.
    post(&mut first, r#"{"jsonrpc":"2.0","id":1,"method":"gate"}"#, &session).await;
    while server.endpoint.metrics().calls.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut second = TcpStream::connect(address).await.unwrap();
    post(&mut second, r#"{"jsonrpc":"2.0","id":2,"method":"echo"}"#, &session).await;
    while server.endpoint.metrics().connections_waited.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.script.gate.notify_one();
    assert!(answer(&mut first).await.contains("\"id\":1"), "its answer is whole");
    // Its connection stays open as far as it is concerned, and makes room all the same.
    assert!(answer(&mut second).await.contains("\"id\":2"));
    let mut nothing = Vec::new();
    timeout(PATIENCE, first.read_to_end(&mut nothing)).await.expect("it is closed").unwrap();
    assert!(nothing.is_empty());
    let metrics = server.endpoint.metrics();
    assert_eq!((metrics.connections_displaced.get(), metrics.connections_accepted.get()), (1, 2));
    serving.abort();
}

#[tokio::test]
async fn silence_and_slowness_are_counted() {
    let server = Server::new();
    let mut options = ListenerOptions::default();
    options.header_timeout = Duration::from_millis(100);
    let (address, serving) = listen(&server, options).await;
    for head in ["", "POST /mcp HTT"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("it is closed");
    }
    while server.endpoint.metrics().connections.get() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.endpoint.metrics().heads_too_slow.get(), 2);
    serving.abort();
}

#[tokio::test]
async fn an_address_is_handed_over_and_no_connection_is_refused() {
    let store = bowline_store::MemoryStore::default();
    let backend = || {
        let store = std::sync::Arc::new(store.clone());
        Server::built(|builder| builder.shared_store(store))
    };
    let (old, new) = (backend(), backend());
    // One socket, two holders: as systemd hands it over.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    let copy = socket.try_clone().unwrap();
    let mut options = ListenerOptions::default();
    options.hand_over = true;
    let serve_on = |server: &Server, socket| {
        let listener = TcpListener::from_std(socket).unwrap();
        tokio::spawn(serve(listener, server.endpoint.clone(), options, std::future::pending()))
    };
    let _old = serve_on(&old, socket);
    let mut kept = TcpStream::connect(address).await.unwrap();
    post(&mut kept, &initialize("2025-11-25").to_string(), "").await;
    let hello = answer(&mut kept).await;
    let session = hello.lines().find(|line| line.starts_with("mcp-session-id")).unwrap().to_owned() + "\r\n";
    old.endpoint.start_drain();
    // Nobody accepts for a moment: whoever connects waits.
    let mut early = TcpStream::connect(address).await.unwrap();
    post(&mut early, r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#, &session).await;
    let _new = serve_on(&new, copy);
    answer(&mut early).await;
    for id in 2..40 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        post(&mut stream, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#), &session).await;
        answer(&mut stream).await;
    }
    assert!(new.script.calls.load(std::sync::atomic::Ordering::SeqCst) >= 38);
    // What is open at the old one is served there, once more.
    post(&mut kept, r#"{"jsonrpc":"2.0","id":99,"method":"echo"}"#, &session).await;
    let last = answer(&mut kept).await;
    assert!(last.to_lowercase().contains("connection: close"), "{last}");
    assert_eq!(timeout(PATIENCE, kept.read(&mut [0; 16])).await.unwrap().unwrap(), 0);
}

/// A balancer that only sees whether it can connect must not send new calls to who leaves, or that would never be done.
#[tokio::test]
async fn who_leaves_is_not_connected_to_any_more_where_others_serve() {
    for alone in [true, false] {
        let store = bowline_store::MemoryStore::default();
        let backend = || {
            let store = std::sync::Arc::new(store.clone());
            Server::built(|builder| builder.shared_store(store))
        };
        let old = backend();
        let _new = (!alone).then(backend);
        let (address, _serving) = listen(&old, ListenerOptions::default()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Of a revision whose connections are not closed early.
        post(&mut stream, &initialize("2025-06-18").to_string(), "").await;
        let hello = answer(&mut stream).await;
        let session =
            hello.lines().find(|line| line.starts_with("mcp-session-id")).unwrap().to_owned() + "\r\n";
        post(&mut stream, r#"{"jsonrpc":"2.0","id":1,"method":"gate"}"#, &session).await;
        while old.endpoint.metrics().calls.get() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let endpoint = old.endpoint.clone();
        let mut left = tokio::spawn(async move { endpoint.drain(Duration::from_secs(3)).await });
        while !alone && TcpStream::connect(address).await.is_ok() {
            assert!(!left.is_finished(), "the call runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if alone {
            // Well after a third of the time.
            assert!(timeout(Duration::from_millis(1_500), &mut left).await.is_err());
            assert!(TcpStream::connect(address).await.is_ok(), "there is nobody else");
        }
        old.script.gate.notify_one();
        // Its answer is whole: a stream by now.
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.contains("\"id\":1,") {
            let read = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("its answer").unwrap();
            assert_ne!(read, 0, "the connection ended: {text}");
            text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        timeout(PATIENCE, left).await.expect("it ends").unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "nothing comes in between the end and the exit");
    }
}

/// A connection that the system has accepted, and that the accept loop has not heard of when its endpoint leaves: nobody else can serve it,
/// and a balancer does not send a POST again that was sent.
#[tokio::test]
async fn what_was_connected_before_the_end_of_listening_is_served() {
    use std::io::{Read as _, Write as _};
    let server = Server::new();
    let mut options = ListenerOptions::default();
    options.hand_over = true;
    let (address, _serving) = listen(&server, options).await;
    // It waits for connections.
    drop(TcpStream::connect(address).await.unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    // Nothing is awaited from here to the start of the drain, so the runtime cannot tell the loop that there is something to accept.
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut late: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    for stream in &mut late {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
    }
    server.endpoint.start_drain();
    for mut stream in late {
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).map(|()| String::from_utf8_lossy(&answer).into_owned())
        });
        let answer = answer.await.unwrap().expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    }
    // And nobody is accepted any more.
    assert!(TcpStream::connect(address).await.is_err());
}
