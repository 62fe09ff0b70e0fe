//! Every target on its seeds, and on a fixed number of mutations of them: the same inputs in every run, so that a failure
//! here is a failure everywhere. `FUZZ_SECONDS` asks for more: each target then runs for that long, from a seed of the day.

use bowline_fuzz::mutate::{self, Dice};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

fn check(target: &str, dictionary: Option<&str>, inputs: u64, run: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
    let words = dictionary.map_or_else(Vec::new, |name| {
        mutate::words(&fs::read_to_string(root.join(format!("dictionaries/{name}.dict"))).unwrap())
    });
    for seed in &seeds {
        one(target, seed, run);
    }
    let seconds =
        std::env::var("FUZZ_SECONDS").ok().map(|text| text.parse().expect("FUZZ_SECONDS is a number"));
    let start = Instant::now();
    let number = match seconds {
        Some(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
        None => 1,
    };
    let mut dice = Dice::new(number);
    let mut done = 0;
    while seconds.map_or(done < inputs, |seconds| start.elapsed() < Duration::from_secs(seconds)) {
        one(target, &mutate::input(&mut dice, &seeds, &words), run);
        done += 1;
    }
    eprintln!("{target}: {done} inputs and {} seeds in {:.1} s", seeds.len(), start.elapsed().as_secs_f64());
}

fn one(target: &str, input: &[u8], run: fn(&[u8])) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(input))) {
        let file = std::env::temp_dir().join(format!("bowline-fuzz-{target}-{}", std::process::id()));
        fs::write(&file, input).unwrap();
        eprintln!(
            "{target} fails; run it again: cargo run --manifest-path fuzz/Cargo.toml --bin {target} {}",
            file.display()
        );
        resume_unwind(panic);
    }
}

macro_rules! targets {
    ($($name:ident, $dictionary:expr, $inputs:expr;)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), $dictionary, $inputs, bowline_fuzz::$name::run);
        })*
    };
}

targets! {
    envelope, Some("json"), 150_000;
    sse_decode, Some("sse"), 50_000;
    cursor, None, 60_000;
    projection, Some("json"), 120_000;
    http_head, Some("http"), 120_000;
    stream_ops, None, 6_000;
    client_ops, None, 120_000;
    session_ops, None, 300;
}

#[test]
fn a_dictionary_is_read_as_libfuzzer_reads_it() {
    let words = mutate::words("# words\n\"a\"\nname=\"\\x0d\\\"\\\\\"\n");
    assert_eq!(words, [&b"a"[..], b"\r\"\\"]);
}
