//! Bowline's store for a fleet: everything in Redis (7 or newer) or Valkey (7.2 or newer), on one server, behind Sentinel, or in a
//! cluster.
//!
//! ```no_run
//! # async fn example() -> Result<(), bowline_store_redis::ConnectError> {
//! use bowline_store_redis::{Options, RedisStore};
//!
//! let store = RedisStore::connect("redis://user:password@redis.internal/0", Options::default()).await?;
//! # let _ = store; Ok(())
//! # }
//! ```
//!
//! # What is kept, and how
//!
//! All names start with [`Options::prefix`] and a hash tag, so that what an action touches is in one slot:
//!
//! | key | holds | lives |
//! |---|---|---|
//! | `…:s:<stream>` | a stream's record: epoch, owner, bounds, tail, seal, reader | open: its `open_ttl`; sealed: its `keep` |
//! | `…:l:<stream>` | its events, each with its id `<epoch>-<offset>` | a second longer |
//! | `…:o:<backend>` | the open call streams of an owner | as the longest of them |
//! | `…:w:<stream>` | the backends that wait for news of it | [`Options::interest`] |
//! | `…:m:<stream>`, `…:k:<stream>` | letters, and their keys | as said with the letters |
//! | `…:e:<session>` | a session's record, or its tombstone | its time to live |
//! | `…:n:<backend>`, `…:backends` | a lease; the list of backends | the lease's time; 30 days |
//! | `…:layout`, `…:keys` | the layout in use; the keys that backends share | 30 days; for good |
//!
//! Events are in a list and not in a Redis stream: a stream takes 4 KiB with its first entry wherever `stream-node-max-bytes` is
//! not set, a list takes what it holds. The fence is the same: an event carries its epoch and offset, an action compares
//! them with the record before it appends, and a reader takes nothing that is not a run.
//!
//! # What may be lost
//!
//! Redis replicates after it has answered, so a failover can forget the last writes. The writer of a stream remembers what it
//! wrote a moment ago ([`Options::tail`] and its bounds) and appends it again: when the connection was made anew, when a cluster
//! has other primaries, when an append finds the log too short, and when a reader is ahead of it. Lost for good is a stream whose making was forgotten,
//! or whose writer died too, or remembers less than was forgotten: it reads as gone or lost, and never with a hole.
//! Sessions, letters and leases are not written again. `min-replicas-to-write 1` and `appendfsync always` make the window smaller.
//!
//! # Rights
//!
//! A user needs `~bowline:*` and `&bowline:*`, and to be allowed
//! `+fcall +function|load +evalsha +eval +ping +info +role +publish +subscribe +unsubscribe +cluster +client|setinfo +select`
//! and what the actions call:
//! `+get +set +del +exists +pttl +pexpire +time +sadd +srem +srandmember +llen +rpush +lpop +lrange +hget +hset +hdel +hgetall`
//! `+zadd +zrange +zrem`. Without `fcall` or `function|load`, scripts are used. Without the channels no wake-up comes, and readers look
//! again every [`Options::backstop`].

mod actions;
mod backends;
mod call;
mod connect;
mod endpoint;
mod hints;
mod link;
mod listen;
mod mailboxes;
mod names;
mod options;
mod resend;
mod sessions;
mod stats;
mod store;
mod streams;
mod tails;
mod waiters;

pub use options::{Options, Scripting};
pub use store::{ConnectError, RedisStore};
