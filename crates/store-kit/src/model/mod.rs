//! Random sequences of operations, compared step by step with a reference of a few lines.

mod operation;
mod reference;

use crate::{Harness, Kit, Violation, harness};
use operation::Operation;
use proptest::test_runner::{self, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use reference::Reference;

/// How much the model tries.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many sequences.
    pub cases: u32,
    /// The most operations in one sequence.
    pub operations: usize,
    /// Whether time passes and things expire in a sequence. Only for a clock that takes no time to advance.
    pub expiry: bool,
    /// Where the sequences come from: the same seed makes the same ones.
    pub seed: [u8; 32],
}

impl Default for Config {
    fn default() -> Self {
        Self { cases: 256, operations: 100, expiry: true, seed: *b"bowline-store-kit: the sequences" }
    }
}

/// Runs sequences until one is answered otherwise than by the reference, and shrinks that one.
///
/// # Errors
/// The shortest sequence that was found, and where it goes wrong.
pub fn run(harness: &impl Harness, config: &Config) -> Result<(), Violation> {
    let settings = test_runner::Config {
        cases: config.cases,
        failure_persistence: None,
        max_shrink_iters: 4_096,
        ..test_runner::Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &config.seed);
    let sequences = operation::sequences(config);
    TestRunner::new_with_rng(settings, rng)
        .run(&sequences, |operations| {
            harness::block_on(harness, async |kit| follow(&kit, &operations).await)
                .map_err(TestCaseError::fail)
        })
        .map_err(|error| {
            let what = match error {
                TestError::Fail(why, operations) => format!("{why}\n  in this sequence: {operations:#?}"),
                TestError::Abort(why) => format!("given up: {why}"),
            };
            Violation { check: "model", what }
        })
}

/// Follows one sequence on both sides.
async fn follow(kit: &Kit<'_>, operations: &[Operation]) -> Result<(), String> {
    let mut reference = Reference::new(kit.clock.unit());
    for (step, operation) in operations.iter().enumerate() {
        reference
            .step(kit, operation)
            .await
            .map_err(|why| format!("step {}, {operation:?}: {why}", step + 1))?;
    }
    Ok(())
}
