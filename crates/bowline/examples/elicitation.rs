//! Asking the person in the middle of a call: one handler for every revision that can ask.
//!
//! `cargo run --example elicitation [ADDRESS]`

use bowline::{AskError, Call, Elicit, Elicited, Error, Sample, Server};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Booking {
    /// The restaurant
    restaurant: String,
}

#[derive(Deserialize, JsonSchema)]
struct Table {
    /// How many people
    #[schemars(range(min = 1, max = 20))]
    people: u8,
    /// Where to sit
    #[serde(default)]
    place: Place,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Place {
    #[default]
    Inside,
    Outside,
}

async fn book(ctx: Call, Booking { restaurant }: Booking) -> Result<String, Error> {
    let form = Elicit::form::<Table>(format!("A table at {restaurant}?"));
    match ctx.ask("table", form).await? {
        Elicited::Accepted(Table { people, place }) => {
            Ok(format!("Booked a table for {people} at {restaurant}, {place:?}"))
        }
        Elicited::Declined => Ok("No table, then".into()),
        Elicited::Cancelled => Err(Error::tool("the question was closed; ask again later")),
    }
}

/// Two questions at once: neither waits for the other.
async fn toast(ctx: Call, Booking { restaurant }: Booking) -> Result<String, AskError> {
    let verse = Sample::new(200).user(format!("Two lines of verse about {restaurant}, please"));
    let form = Elicit::form::<Table>("Who is there to hear it?");
    let (verse, table) = ctx.ask_many((("verse", verse), ("table", form))).await?;
    let people = table.accepted().map_or(0, |table| table.people);
    Ok(format!("To {people} people: {}", verse.text()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let server = Server::builder("tables", "1.0")
        .tool("book_table", "Books a table", book)
        .tool("toast", "Says a toast", toast)
        .build()?;
    Ok(server.http().serve(address).await?)
}
