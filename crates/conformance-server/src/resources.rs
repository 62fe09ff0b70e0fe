//! Resources.

use crate::content::PNG;
use bowline::{Call, Json, Resource, ResourceTemplate, ServerBuilder};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Variables {
    id: String,
}

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .resource(
            Resource::new("test://static-text", "Static text").description("A text").mime_type("text/plain"),
            |_: Call| async { "This is the content of the static text resource." },
        )
        .resource(
            Resource::new("test://static-binary", "Static binary")
                .description("A picture")
                .mime_type("image/png"),
            |_: Call| async { PNG.to_vec() },
        )
        .resource(
            Resource::new("test://watched-resource", "Watched resource")
                .description("A text to subscribe to")
                .mime_type("text/plain"),
            |_: Call| async { "Watched resource content" },
        )
        .resource_template(
            ResourceTemplate::new("test://template/{id}/data", "Template")
                .description("Data of an id")
                .mime_type("application/json"),
            |_: Call, Variables { id }: Variables| async move {
                let data = format!("Data for ID: {id}");
                Json(json!({ "id": id, "templateTest": true, "data": data }))
            },
        )
}
