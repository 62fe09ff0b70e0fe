//! Prompts, and the completion of an argument.

use crate::content::PNG;
use bowline::{Call, Content, NoInput, PromptMessage, Reference, ResourceContents, ServerBuilder, Typed};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Both {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    /// URI of the resource to embed
    resource_uri: String,
}

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .prompt("test_simple_prompt", "A prompt without arguments", |_: Call, _: NoInput| async {
            "This is a simple prompt for testing."
        })
        .prompt(
            "test_prompt_with_arguments",
            "A prompt with two arguments",
            |_: Call, both: Both| async move {
                format!("Prompt with arguments: arg1='{}', arg2='{}'", both.arg1, both.arg2)
            },
        )
        .completion(
            Reference::prompt("test_prompt_with_arguments"),
            "arg1",
            |_: Call, typed: Typed| async move {
                ["paris", "park", "party", "testing"]
                    .into_iter()
                    .filter(|word| word.starts_with(&typed.value))
                    .collect::<Vec<_>>()
            },
        )
        .prompt(
            "test_prompt_with_embedded_resource",
            "A prompt with a resource in it",
            |_: Call, Embedded { resource_uri }: Embedded| async move {
                let resource = ResourceContents::text("Embedded resource content for testing.")
                    .uri(resource_uri)
                    .mime_type("text/plain");
                [
                    PromptMessage::user(Content::resource(resource)),
                    PromptMessage::user("Please process the embedded resource above."),
                ]
            },
        )
        .prompt("test_prompt_with_image", "A prompt with a picture in it", |_: Call, _: NoInput| async {
            [
                PromptMessage::user(Content::image(PNG, "image/png")),
                PromptMessage::user("Please analyze the image above."),
            ]
        })
}
