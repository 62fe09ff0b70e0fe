//! All randomness of a run comes from its seed: also that of the standard library's hash maps, of tokio (which waiter of a `watch` is woken
//! first, which branch of a `select!`) and of the server's ids. They all ask the C library's `getrandom`, so this stands in its place.

use std::{cell::Cell, io::Read as _};

thread_local! {
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on, what this thread takes for random follows from `seed`.
///
/// The thread must be a new one: what it has drawn before stays. And for the whole process to follow from the seed, this is to be done
/// once in it: tokio counts how many runtimes there were.
pub fn seed_this_thread(seed: u64) {
    SEEDED.set(Some(seed));
}

/// Whether this process's randomness is ours: elsewhere than on Linux the standard library asks somebody else.
#[must_use]
pub const fn is_ours() -> bool {
    cfg!(target_os = "linux")
}

/// splitmix64.
pub(crate) const fn step(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (state, z ^ (z >> 31))
}

fn fill(out: &mut [u8]) -> bool {
    let Some(mut state) = SEEDED.get() else {
        // A thread that has no seed gets what it asks for.
        return std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(out)).is_ok();
    };
    for chunk in out.chunks_mut(8) {
        let (next, word) = step(state);
        state = next;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    SEEDED.set(Some(state));
    true
}

/// Takes the place of the C library's function of that name in programs that this crate is part of.
///
/// # Safety
/// As `getrandom(2)`: `out` points to `len` bytes that may be written, or `len` is 0.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the one way to hand randomness to code that asks the system for it")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(out: *mut u8, len: usize, _flags: u32) -> isize {
    if len == 0 {
        return 0;
    }
    // SAFETY: the caller promises `len` bytes at `out` that are its own for the time of the call. They are set before they are read.
    let out = unsafe {
        out.write_bytes(0, len);
        std::slice::from_raw_parts_mut(out, len)
    };
    // More than `isize::MAX` bytes are in no slice.
    if fill(out) { isize::try_from(len).unwrap_or(isize::MAX) } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::HashSet,
        hash::{BuildHasher as _, RandomState},
        thread,
    };

    fn drawn(seed: Option<u64>) -> (u64, Vec<u32>) {
        let draw = move || {
            if let Some(seed) = seed {
                seed_this_thread(seed);
            }
            let set: HashSet<u32> = (0..50).collect();
            (RandomState::new().hash_one(7), set.into_iter().collect())
        };
        thread::spawn(draw).join().unwrap()
    }

    #[test]
    fn hash_maps_follow_from_the_seed_and_from_nothing_else() {
        assert_eq!(drawn(Some(1)), drawn(Some(1)));
        assert_ne!(drawn(Some(1)), drawn(Some(2)));
        assert_ne!(drawn(None), drawn(None));
    }
}
