//! A transport of one's own: messages over TCP, each with its length in front (four bytes, big end first).
//!
//! `cargo run --example transport [ADDRESS]`

use bowline::{Call, NoInput, PipeOptions, Server};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// The longest message that is taken: a length comes from outside, and memory is only given to what is within.
const LIMIT: u32 = 4 * 1024 * 1024;

async fn serve(server: Server, stream: TcpStream) -> io::Result<()> {
    let (mut input, mut output) = stream.into_split();
    // One client, one pipe.
    let (mut sender, mut receiver) = server.pipe(PipeOptions::default()).split();
    let reading = async move {
        while let Ok(length) = input.read_u32().await {
            if length > LIMIT {
                break;
            }
            let mut message = vec![0; length as usize];
            input.read_exact(&mut message).await?;
            sender.send(message.into()).await;
        }
        // The client has gone; what it still waits for has a second.
        sender.finish(Duration::from_secs(1)).await;
        Ok(())
    };
    let writing = async move {
        while let Some(message) = receiver.next().await {
            let length = u32::try_from(message.len()).map_err(io::Error::other)?;
            output.write_u32(length).await?;
            output.write_all(&message).await?;
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(|((), ())| ())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let server = Server::builder("transport", "1.0")
        .tool("ping_me", "Says pong", |_: Call, _: NoInput| async { "pong" })
        .build()?;
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let server = server.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(server, stream).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
