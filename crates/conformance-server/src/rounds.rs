//! What the scenarios of `2026-07-28` ask for: questions by round trips, changes that listeners hear of, headers of parameters.

use bowline::{
    AskError, AskErrorKind, Call, Elicit, Elicited, Error, Level, NoInput, Roots, Sample, ServerBuilder,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// What you are called
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    /// Your favourite color
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmed {
    /// Whether to go on
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Context {
    /// What the prompt is about
    context: String,
}

#[derive(Deserialize, JsonSchema)]
struct Mirrored {
    /// A text that the header Mcp-Param-Value repeats
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

fn refused<T>(answer: Elicited<T>) -> Result<T, Error> {
    let action = answer.action();
    answer.accepted().ok_or_else(|| Error::tool(format!("The person chose {action}")))
}

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    prompts(changes(questions(server)))
}

fn questions(server: ServerBuilder) -> ServerBuilder {
    let capital = || Sample::new(100).user("What is the capital of France?");
    server
        .tool(
            "test_missing_capability",
            "Needs a client that has a model",
            |ctx: Call, _: NoInput| async move {
                let answer = ctx.ask("answer", Sample::new(10).user("Hello")).await?;
                Ok::<_, AskError>(answer.text())
            },
        )
        .tool("test_streaming_elicitation", "Asks the person", |ctx: Call, _: NoInput| async move {
            let answer = ctx.ask("name", Elicit::form::<Name>("What is your name?")).await?;
            Ok::<_, Error>(format!("Hello, {}!", refused(answer)?.name))
        })
        .tool(
            "test_input_required_result_elicitation",
            "Asks for a name",
            |ctx: Call, _: NoInput| async move {
                let answer = ctx.ask("user_name", Elicit::form::<Name>("What is your name?")).await?;
                Ok::<_, Error>(format!("Hello, {}!", refused(answer)?.name))
            },
        )
        .tool(
            "test_input_required_result_sampling",
            "Asks the client's model",
            move |ctx: Call, _: NoInput| async move {
                let answer = ctx.ask("capital_question", capital()).await?;
                Ok::<_, AskError>(format!("The model says: {}", answer.text()))
            },
        )
        .tool(
            "test_input_required_result_list_roots",
            "Asks for the roots",
            |ctx: Call, _: NoInput| async move {
                let roots = ctx.ask("client_roots", Roots).await?;
                Ok::<_, AskError>(format!("There are {} roots", roots.len()))
            },
        )
        .tool(
            "test_input_required_result_request_state",
            "Asks, and carries state",
            |ctx: Call, _: NoInput| async move {
                let before: String =
                    ctx.state("before", || async { Ok::<_, Error>("state-ok".to_owned()) }).await?;
                let answer = ctx.ask("confirm", Elicit::form::<Confirmed>("Please confirm")).await?;
                Ok::<_, Error>(format!("{before}: confirmed={}", refused(answer)?.ok))
            },
        )
        .tool(
            "test_input_required_result_multiple_inputs",
            "Asks three things at once",
            move |ctx: Call, _: NoInput| async move {
                let name = Elicit::form::<Name>("What is your name?");
                let asked = (("user_name", name), ("greeting", capital()), ("client_roots", Roots));
                let (name, answer, roots) = ctx.ask_many(asked).await?;
                let name = refused(name)?.name;
                Ok::<_, Error>(format!("{name}: {} ({} roots)", answer.text(), roots.len()))
            },
        )
        .tool(
            "test_input_required_result_multi_round",
            "Asks one thing after the other",
            |ctx: Call, _: NoInput| async move {
                let name =
                    refused(ctx.ask("step1", Elicit::form::<Name>("Step 1: What is your name?")).await?)?
                        .name;
                let question = format!("Step 2: {name}, what is your favourite color?");
                let color = refused(ctx.ask("step2", Elicit::form::<Color>(question)).await?)?.color;
                Ok::<_, Error>(format!("{name} likes {color}"))
            },
        )
        .tool(
            "test_input_required_result_tampered_state",
            "Asks, and trusts only its own state",
            |ctx: Call, _: NoInput| async move {
                let answer = ctx.ask("confirm", Elicit::form::<Confirmed>("Please confirm")).await?;
                Ok::<_, Error>(format!("confirmed={}", refused(answer)?.ok))
            },
        )
        .tool(
            "test_input_required_result_capabilities",
            "Asks what the client can be asked",
            move |ctx: Call, _: NoInput| async move {
                match ctx.ask("user_name", Elicit::form::<Name>("What is your name?")).await {
                    Ok(answer) => Ok(format!("The person is {}", refused(answer)?.name)),
                    Err(error) if matches!(error.kind, AskErrorKind::Unsupported(_)) => Ok(format!(
                        "The model says: {}",
                        ctx.ask("capital_question", capital()).await?.text()
                    )),
                    Err(error) => Err(Error::from(error)),
                }
            },
        )
}

fn changes(server: ServerBuilder) -> ServerBuilder {
    server
        .tool("test_logging_tool", "Logs, for clients that ask for it", |ctx: Call, _: NoInput| async move {
            ctx.log(Level::Info, "A log message of the tool");
            "Logged"
        })
        .tool(
            "test_trigger_tool_change",
            "Announces that the list of tools changed",
            |ctx: Call, _: NoInput| async move {
                ctx.server().tools_changed();
                "Announced"
            },
        )
        .tool(
            "test_trigger_prompt_change",
            "Announces that the list of prompts changed",
            |ctx: Call, _: NoInput| async move {
                ctx.server().prompts_changed();
                "Announced"
            },
        )
        .tool(
            "test_custom_header",
            "Has a parameter that a header repeats",
            |_: Call, input: Mirrored| async move { format!("The value is {}", input.value) },
        )
}

fn prompts(server: ServerBuilder) -> ServerBuilder {
    server.prompt(
        "test_input_required_result_prompt",
        "A prompt that asks what it is about",
        |ctx: Call, _: NoInput| async move {
            let answer = ctx.ask("user_context", Elicit::form::<Context>("What is it about?")).await?;
            Ok::<_, Error>(format!("Write about {}.", refused(answer)?.context))
        },
    )
}
