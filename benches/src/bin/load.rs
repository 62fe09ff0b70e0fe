//! A load generator: `load PORT PID CONNECTIONS CALLS [SESSION]`. Prints the server's CPU time a call, read from the system.

use std::time::Instant;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

fn cpu_ticks(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields.get(11).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
        + fields.get(12).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let port: u16 = args[1].parse().unwrap_or(9001);
    let (pid, connections, calls) = (args[2].clone(), args[3].parse().unwrap_or(32), args[4].parse().unwrap_or(10_000));
    let session = args.get(5).map_or_else(String::new, |id| format!("Mcp-Session-Id: {id}\r\n"));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{}"}}}}}}"#,
        "x".repeat(100)
    );
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n{session}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (before, began) = (cpu_ticks(&pid), Instant::now());
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let request = request.clone();
        tasks.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
            stream.set_nodelay(true)?;
            let mut buf = vec![0; 64 * 1024];
            for _ in 0..calls / connections {
                stream.write_all(request.as_bytes()).await?;
                let n = stream.read(&mut buf).await?;
                assert!(buf[..n].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buf[..n]));
            }
            std::io::Result::Ok(())
        }));
    }
    for task in tasks {
        task.await.map_err(std::io::Error::other)??;
    }
    let ticks = cpu_ticks(&pid) - before;
    println!(
        "{:.2} us CPU a call, {:.0} calls/s",
        ticks as f64 * 10_000.0 / calls as f64,
        calls as f64 / began.elapsed().as_secs_f64()
    );
    Ok(())
}
