//! How long each part takes: `cargo bench --bench parts`.

use bowline_benches::parts as p;
use divan::{AllocProfiler, Bencher};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

#[divan::bench(args = [100, 3_000, 56_000])]
fn parse(bencher: Bencher, size: usize) {
    bencher.with_inputs(|| p::call_body(size)).bench_values(p::parse);
}

#[divan::bench]
fn classify(bencher: Bencher) {
    bencher.with_inputs(p::head).bench_values(p::classify);
}

#[divan::bench]
fn cursor_mint(bencher: Bencher) {
    bencher.with_inputs(p::cursors).bench_values(p::mint);
}

#[divan::bench]
fn cursor_verify(bencher: Bencher) {
    bencher.with_inputs(p::cursors).bench_values(p::verify);
}

#[divan::bench]
fn sse_encode(bencher: Bencher) {
    bencher.with_inputs(p::sse).bench_values(p::sse_encode);
}

#[divan::bench]
fn sse_decode(bencher: Bencher) {
    bencher.with_inputs(p::sse_event).bench_values(p::sse_decode);
}

#[divan::bench]
fn memory_append(bencher: Bencher) {
    bencher.with_inputs(p::store).bench_refs(|store| p::append(store));
}

#[divan::bench]
fn memory_read(bencher: Bencher) {
    bencher.with_inputs(p::store).bench_refs(|store| p::read(store));
}

#[divan::bench]
fn fast_path(bencher: Bencher) {
    bencher.with_inputs(p::fast).bench_refs(p::call);
}

#[divan::bench]
fn stream_path(bencher: Bencher) {
    bencher.with_inputs(p::streamed).bench_refs(p::call);
}
