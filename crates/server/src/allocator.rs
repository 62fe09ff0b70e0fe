//! The allocator keeps what calls free.

use std::hint::black_box;

/// The size of a block that is larger than what nearly all calls take.
const LARGE: usize = 1 << 20;

/// Makes the allocator of the C library keep up to 2 MiB of freed memory instead of giving it back to the system.
///
/// At first it gives back what is more than 128 KiB, so that a server whose calls have 100 KB each takes pages from the system and returns
/// them with every call, which costs more than the call. Once a larger block was freed it keeps twice the size of that. This is one, which
/// nobody writes to: it takes no memory.
pub(crate) fn keep_freed() {
    drop(black_box(Vec::<u8>::with_capacity(LARGE)));
}
