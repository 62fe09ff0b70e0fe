//! Notes as resources: state that handlers share, a template with completion, subscriptions, and a list that changes.
//!
//! `cargo run --example resources` serves on standard input and output, for a client that starts it.

use bowline::{Call, Error, Reference, Resource, ResourceTemplate, Server, Typed};
use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The notes by name.
type Notes = RwLock<BTreeMap<String, String>>;

#[derive(Deserialize, JsonSchema)]
struct Note {
    name: String,
    text: String,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn write(ctx: Call<Notes>, Note { name, text }: Note) -> Result<String, Error> {
    let uri = format!("note:///{name}");
    let is_new = ctx.shared().write().insert(name.clone(), text).is_none();
    if is_new {
        // A resource of its own: clients see it in the list, and are told that the list changed.
        let (resource, reads) = (Resource::new(&uri, &name).mime_type("text/plain"), name.clone());
        ctx.server().change(|server| {
            server.resource(resource, move |ctx| {
                let name = reads.clone();
                async move { read(&ctx, &name) }
            })
        })?;
    }
    let told = ctx.server().resource_updated(&uri);
    Ok(format!("wrote {uri}; {told} subscribers were told"))
}

fn read(ctx: &Call<Notes>, name: &str) -> Result<String, Error> {
    let note = ctx.shared().read().get(name).cloned();
    note.ok_or_else(|| Error::resource_not_found(&format!("note:///{name}")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("notes", "1.0")
        .with_state(Notes::default())
        .subscriptions()
        .tool("write_note", "Writes a note", write)
        .resource_template(
            ResourceTemplate::new("note:///{name}", "note").description("A note").mime_type("text/plain"),
            |ctx: Call<Notes>, Named { name }: Named| async move { read(&ctx, &name) },
        )
        .completion(
            Reference::resource("note:///{name}"),
            "name",
            |ctx: Call<Notes>, typed: Typed| async move {
                let notes = ctx.shared().read();
                notes.keys().filter(|name| name.starts_with(&typed.value)).cloned().collect::<Vec<_>>()
            },
        )
        .build()?;
    Ok(server.stdio().serve().await?)
}
