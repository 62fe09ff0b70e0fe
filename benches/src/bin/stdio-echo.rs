//! The echo as a stdio server, for what stands in front of one: as little work as a child process can do.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::{self, BufRead as _, Write as _};

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "protocolVersion")]
    version: Option<&'a str>,
}

fn main() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if let Ok(Envelope { id: Some(id), method: Some(method), params }) = serde_json::from_slice(&line) {
            let id = id.get();
            let (arguments, version) =
                params.map_or((None, None), |params| (params.arguments, params.version));
            match method {
                "initialize" => writeln!(
                    output,
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"stdio-echo","version":"1"}}}}}}"#,
                    version.unwrap_or("2025-11-25")
                )?,
                "tools/call" => {
                    let text = serde_json::to_string(arguments.map_or("{}", RawValue::get))?;
                    writeln!(
                        output,
                        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{text}}}]}}}}"#
                    )?;
                }
                "tools/list" => writeln!(
                    output,
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{{"name":"echo","inputSchema":{{"type":"object"}}}}]}}}}"#
                )?,
                _ => writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)?,
            }
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}
