//! What the scenarios of the tasks extension ask for.

use bowline::{Call, Elicit, Elicited, Error, NoInput, ServerBuilder, TaskSupport, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// How long the jobs take, as the suite expects it.
const JOB: Duration = Duration::from_secs(1);

/// How long the work takes that follows on an answer.
const AFTER_ANSWER: Duration = Duration::from_millis(100);

#[derive(Deserialize, JsonSchema)]
struct Greeted {
    /// Who is greeted
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Computed {
    /// How long it takes, in seconds
    seconds: f64,
    /// What the result says
    #[serde(default)]
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    /// What would be deleted
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmed {
    /// Really delete it?
    confirm: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// What you are called
    name: String,
}

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    asking(jobs(server))
}

fn jobs(server: ServerBuilder) -> ServerBuilder {
    let required = |name: &str| Tool::new(name).tasks(TaskSupport::Required);
    server
        .add_tool(
            Tool::new("greet").description("Greets, at once").tasks(TaskSupport::Never),
            |_: Call, Greeted { name }: Greeted| async move { format!("Hello, {name}!") },
        )
        .tool(
            "slow_compute",
            "Takes as long as it is told, as a task where it takes any time",
            |ctx: Call, Computed { seconds, label }: Computed| async move {
                let time =
                    Duration::try_from_secs_f64(seconds).map_err(|error| Error::tool(error.to_string()))?;
                if !time.is_zero() {
                    ctx.become_task().await;
                    tokio::time::sleep(time).await;
                }
                Ok::<_, Error>(format!("Computed {label} in {seconds} s"))
            },
        )
        .add_tool(
            required("failing_job").description("Fails, so that the model can read why"),
            |_: Call, _: NoInput| async move {
                tokio::time::sleep(JOB).await;
                Err::<String, _>(Error::tool("This job always fails"))
            },
        )
        .add_tool(
            required("protocol_error_job").description("Fails with an error of the protocol"),
            |_: Call, _: NoInput| async move {
                tokio::time::sleep(JOB).await;
                Err::<String, _>(Error::protocol(-32603, "This job always fails"))
            },
        )
}

fn asking(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            "confirm_delete",
            "Asks, as a task, whether to delete something, and deletes nothing",
            |ctx: Call, Named { filename }: Named| async move {
                ctx.become_task().await;
                let question = Elicit::form::<Confirmed>(format!("Delete {filename}?"));
                Ok::<_, Error>(match ctx.ask("confirm", question).await? {
                    Elicited::Accepted(Confirmed { confirm: true }) => format!("Deleted {filename}"),
                    _ => format!("{filename} stays"),
                })
            },
        )
        .tool("multi_input", "Asks two things at once, as a task", |ctx: Call, _: NoInput| async move {
            ctx.become_task().await;
            let (first, second) =
                (Elicit::form::<Name>("And who are you?"), Elicit::form::<Confirmed>("Sure?"));
            let (name, sure) = ctx.ask_many((("name", first), ("sure", second))).await?;
            let name = name.accepted().map_or_else(|| "Nobody".into(), |form| form.name);
            let sure = sure.accepted().is_some_and(|form| form.confirm);
            Ok::<_, Error>(format!("{name} is {}", if sure { "sure" } else { "not sure" }))
        })
        .add_tool(
            Tool::new("test_tool_with_task")
                .description("Asks for a name first, and then goes on as a task")
                .tasks(TaskSupport::Required),
            |ctx: Call, _: NoInput| async move {
                let answer = ctx.ask("user_name", Elicit::form::<Name>("What is your name?")).await?;
                let name = answer.accepted().map_or_else(|| "nobody".into(), |form| form.name);
                tokio::time::sleep(AFTER_ANSWER).await;
                Ok::<_, Error>(format!("Hello, {name}!"))
            },
        )
}
