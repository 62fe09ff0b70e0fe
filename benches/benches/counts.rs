//! How many instructions and allocations each part takes: `cargo xtask bench --parts` runs this and compares.

use bowline_benches::parts as p;
use bowline_proto::sse::Decoder;
use bowline_store::MemoryStore;
use bytes::{Bytes, BytesMut};
use gungraun::{Dhat, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};

#[library_benchmark]
#[bench::of_100(p::next_body(100))]
#[bench::of_3000(p::next_body(3_000))]
#[bench::of_56000(p::next_body(56_000))]
fn parse(body: Bytes) {
    p::parse(body);
}

#[library_benchmark]
#[bench::call(p::head())]
fn classify(head: p::Head) {
    p::classify(head);
}

#[library_benchmark]
#[bench::call(p::cursors())]
fn cursor_mint(cursors: p::Cursors) {
    p::mint(cursors);
}

#[library_benchmark]
#[bench::call(p::cursors())]
fn cursor_verify(cursors: p::Cursors) {
    p::verify(cursors);
}

#[library_benchmark]
#[bench::progress(p::sse())]
fn sse_encode(sse: p::Sse) {
    p::sse_encode(sse);
}

#[library_benchmark]
#[bench::progress(p::sse_event())]
fn sse_decode(event: (Decoder, BytesMut)) {
    p::sse_decode(event);
}

// What is given back is dropped outside of what is counted.

#[library_benchmark]
#[bench::progress(p::store())]
fn memory_append(store: MemoryStore) -> MemoryStore {
    p::append(&store);
    store
}

#[library_benchmark]
#[bench::five(p::store())]
fn memory_read(store: MemoryStore) -> MemoryStore {
    p::read(&store);
    store
}

#[library_benchmark]
#[bench::typed_echo(p::fast())]
fn fast_path(mut fast: p::Fast) -> p::Fast {
    p::call(&mut fast);
    fast
}

library_benchmark_group!(
    name = counts,
    benchmarks = [
        parse,
        classify,
        cursor_mint,
        cursor_verify,
        sse_encode,
        sse_decode,
        memory_append,
        memory_read,
        fast_path
    ]
);

main!(config = LibraryBenchmarkConfig::default().tool(Dhat::default()), library_benchmark_groups = counts);
