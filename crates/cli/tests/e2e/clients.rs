//! Real clients with stock settings, through the built program: in front of the fixture, and of the reference server.

use crate::common::{command, serve};
use bowline_testkit::{Fault, FaultProxy, Program, RealClient, everything_server};
use std::time::Duration;

/// A scenario with a deadline of its own; the clients give up before.
const LIMIT: Duration = Duration::from_secs(110);

async fn everything_behind(options: &str) -> Program {
    command(everything_server()).with(options).start().await
}

async fn all_steps(client: RealClient) {
    let program = everything_behind("").await;
    let run = client.run(program.url(), "everything", LIMIT).await.passed();
    assert_eq!(run.step("gone")["status"], 404);
}

/// 12 s on connections of 3 s at most: the call is parked and polled for, several times.
async fn slow(client: RealClient, program: Program) {
    let run = client.run(program.url(), "slow --seconds 12 --expect-once --no-repeats", LIMIT).await.passed();
    let step = run.step("slow");
    assert!(step["resumes"].as_u64().is_some_and(|resumes| resumes >= 2), "{step}");
    assert_eq!(step["progress"], 12, "{step}");
}

const PARKING: &str = "--max-connection 3s --retry 500ms";

/// Options under which a client can survive a network that resets every connection two seconds after it was made.
///
/// The TypeScript and the Rust clients survive any number of resets: every connection shows them an id. The Python client
/// counts a resumed connection that is reset as a failed attempt and gives up at the third with no orderly close between. Parked after 1.2 s,
/// most of its connections end in order before the network cuts them: what who runs such a network has to configure.
fn parking_for(client: RealClient) -> &'static str {
    match client {
        RealClient::Python => "--max-connection 1200ms --retry 300ms",
        RealClient::TypeScript1 | RealClient::TypeScript2 | RealClient::Rmcp => "--retry 300ms",
    }
}

async fn cut(client: RealClient, program: Program) {
    let proxy = FaultProxy::start(program.address(), Fault::ResetAfter(Duration::from_secs(2))).await;
    // The Python client presents the older id after a reset, so progress may come again; the result may not.
    let repeats = if client == RealClient::Python { "" } else { "--no-repeats" };
    let scenario = format!("cut --seconds 12 --expect-once {repeats} --min-resumes 3");
    let run = client.run(&proxy.url(), &scenario, LIMIT).await.passed();
    assert!(proxy.resets() >= 2, "{} resets; {}", proxy.resets(), run.step("cut"));
}

async fn many(client: RealClient, program: Program) {
    client.run(program.url(), "many --calls 300 --parallel 20", LIMIT).await.passed();
}

// `slow` and `cut` mostly wait, so they do it together.
macro_rules! clients {
    ($($module:ident: $client:expr;)*) => { $(
        mod $module {
            use super::*;

            #[tokio::test]
            async fn everything() {
                all_steps($client).await;
            }

            #[tokio::test]
            async fn slow_and_cut_fixture() {
                let programs = (serve(PARKING).await, serve(parking_for($client)).await);
                tokio::join!(slow($client, programs.0), cut($client, programs.1));
            }

            #[tokio::test]
            async fn slow_and_cut_reference() {
                let programs =
                    (everything_behind(PARKING).await, everything_behind(parking_for($client)).await);
                tokio::join!(slow($client, programs.0), cut($client, programs.1));
            }

            #[tokio::test]
            async fn many_fixture() {
                many($client, serve("").await).await;
            }

            #[tokio::test]
            async fn many_reference() {
                many($client, everything_behind("").await).await;
            }

            /// Every call is answered as a stream.
            #[tokio::test]
            async fn many_as_streams() {
                many($client, serve("--response sse").await).await;
            }

            #[tokio::test]
            async fn cancel() {
                let program = serve("").await;
                $client.run(program.url(), "cancel --seconds 4", LIMIT).await.passed();
                program.has_received("the cancel", |m| m["method"] == "notifications/cancelled").await;
            }
        }
    )* };
}

clients! {
    typescript_1: RealClient::TypeScript1;
    typescript_2: RealClient::TypeScript2;
    python: RealClient::Python;
    rmcp: RealClient::Rmcp;
}
