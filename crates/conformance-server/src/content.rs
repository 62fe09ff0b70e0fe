//! Tools that return one kind of content each.

use bowline::{Call, Content, Error, NoInput, ResourceContents, ServerBuilder, Tool};
use serde_json::{Value, json};

/// One red pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0,
    0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63,
    0xf8, 0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0xc9, 0xfe, 0x92, 0xef, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae,
    0x42, 0x60, 0x82,
];

/// A sound of no samples: 8 kHz, one channel, 8 bits.
const WAV: &[u8] = &[
    b'R', b'I', b'F', b'F', 36, 0, 0, 0, b'W', b'A', b'V', b'E', b'f', b'm', b't', b' ', 16, 0, 0, 0, 1, 0,
    1, 0, 0x40, 0x1f, 0, 0, 0x40, 0x1f, 0, 0, 1, 0, 8, 0, b'd', b'a', b't', b'a', 0, 0, 0, 0,
];

/// The schema that `tools/list` has to give back as it is.
const SCHEMA: &str = include_str!("schema.json");

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool("test_simple_text", "Returns a text", |_: Call, _: NoInput| async {
            "This is a simple text response for testing."
        })
        .tool("test_image_content", "Returns a picture", |_: Call, _: NoInput| async {
            Content::image(PNG, "image/png")
        })
        .tool("test_audio_content", "Returns a sound", |_: Call, _: NoInput| async {
            Content::audio(WAV, "audio/wav")
        })
        .tool("test_embedded_resource", "Returns a resource", |_: Call, _: NoInput| async {
            ResourceContents::text("This is an embedded resource content.")
                .uri("test://embedded-resource")
                .mime_type("text/plain")
        })
        .tool(
            "test_multiple_content_types",
            "Returns a text, a picture and a resource",
            |_: Call, _: NoInput| async {
                let data = json!({ "test": "data", "value": 123 }).to_string();
                [
                    Content::text("Multiple content types test:"),
                    Content::image(PNG, "image/png"),
                    Content::resource(
                        ResourceContents::text(data)
                            .uri("test://mixed-content-resource")
                            .mime_type("application/json"),
                    ),
                ]
            },
        )
        .tool("test_error_handling", "Fails, so that the model can read why", |_: Call, _: NoInput| async {
            Err::<String, _>(Error::tool("This tool intentionally returns an error for testing"))
        })
        .add_tool(
            Tool::new("json_schema_2020_12_tool")
                .description("Has an input schema with keywords of JSON Schema 2020-12")
                .input_schema(SCHEMA),
            |_: Call, input: Value| async move { format!("Called with {input}") },
        )
}
