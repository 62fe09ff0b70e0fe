//! Names in Redis: what is touched together has one hash tag, and the tags are spread evenly over the slots of a cluster.

use bowline_proto::cursor::StreamId;
use bowline_store::BackendId;

/// The slots of a cluster.
const SLOTS: usize = 16_384;

/// The tag of what belongs to no partition: leases, the list of backends, shared keys.
const REGISTRY: &str = "registry";

/// Makes the names of one deployment.
#[derive(Debug)]
pub(crate) struct Names {
    prefix: String,
    /// What the keys of each partition start with.
    partitions: Vec<String>,
}

impl Names {
    pub(crate) fn new(prefix: &str, partitions: usize) -> Self {
        let partitions = tags(partitions).into_iter().map(|tag| format!("{prefix}:{{{tag}}}:")).collect();
        Self { prefix: prefix.to_owned(), partitions }
    }

    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    pub(crate) fn partition(&self, stream: StreamId) -> usize {
        self.index(stream.as_bytes())
    }

    /// Ids are random; any mixture of their bytes will do, but it has to be the same in every version.
    fn index(&self, key: &[u8]) -> usize {
        let sum = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // So that each bit of the key has its say in each bit of the sum.
        let sum = (sum ^ (sum >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        usize::try_from((sum >> 33) % self.partitions.len() as u64).unwrap_or(0)
    }

    fn of(&self, stream: StreamId, kind: &str) -> String {
        format!("{}{kind}:{stream:?}", self.partitions[self.partition(stream)])
    }

    /// The record of a stream.
    pub(crate) fn record(&self, stream: StreamId) -> String {
        self.of(stream, "s")
    }

    /// Its events.
    pub(crate) fn events(&self, stream: StreamId) -> String {
        self.of(stream, "l")
    }

    /// What it takes to run its call again.
    pub(crate) fn rerun(&self, stream: StreamId) -> String {
        self.of(stream, "r")
    }

    /// The backends that wait for it.
    pub(crate) fn waiters(&self, stream: StreamId) -> String {
        self.of(stream, "w")
    }

    /// The letters for its call.
    pub(crate) fn letters(&self, stream: StreamId) -> String {
        self.of(stream, "m")
    }

    /// Their keys.
    pub(crate) fn letter_keys(&self, stream: StreamId) -> String {
        self.of(stream, "k")
    }

    /// What the keys of records start with, in one partition.
    pub(crate) fn records(&self, partition: usize) -> String {
        format!("{}s:", self.partitions[partition])
    }

    /// What the keys of the owners' sets start with, in one partition.
    pub(crate) fn owners(&self, partition: usize) -> String {
        format!("{}o:", self.partitions[partition])
    }

    /// The open streams of one owner, in one partition.
    pub(crate) fn owned(&self, partition: usize, owner: BackendId) -> String {
        format!("{}o:{owner}", self.partitions[partition])
    }

    /// A session.
    pub(crate) fn session(&self, id: &str) -> String {
        format!("{}e:{id}", self.partitions[self.index(id.as_bytes())])
    }

    fn registered(&self, kind: &str) -> String {
        format!("{}:{{{REGISTRY}}}:{kind}", self.prefix)
    }

    /// The list of backends.
    pub(crate) fn backends(&self) -> String {
        self.registered("backends")
    }

    /// What the keys of leases start with.
    pub(crate) fn leases(&self) -> String {
        self.registered("n:")
    }

    /// A lease.
    pub(crate) fn lease(&self, backend: BackendId) -> String {
        format!("{}{backend}", self.leases())
    }

    /// Since when leases are renewed without a break.
    pub(crate) fn watch(&self) -> String {
        self.registered("watch")
    }

    /// The layout that is in use.
    pub(crate) fn layout(&self) -> String {
        self.registered("layout")
    }

    /// The keys that all backends share.
    pub(crate) fn shared_keys(&self) -> String {
        self.registered("keys")
    }

    /// What the names of channels start with.
    pub(crate) fn channels(&self) -> String {
        format!("{}:w:", self.prefix)
    }
}

/// As many tags as there are partitions, each in a share of the slots of its own.
fn tags(partitions: usize) -> Vec<String> {
    let mut found = vec![None; partitions];
    let mut missing = partitions;
    // Each number falls into a random share: about n ln n tries.
    for number in 0_u64.. {
        if missing == 0 {
            break;
        }
        let tag = format!("{number:x}");
        let share = usize::from(crc16(tag.as_bytes())) % SLOTS * partitions / SLOTS;
        if found[share].is_none() {
            found[share] = Some(tag);
            missing -= 1;
        }
    }
    found.into_iter().flatten().collect()
}

/// CRC-16/XMODEM, as the specification of Redis Cluster has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn each_partition_has_a_share_of_the_slots_of_its_own() {
        for partitions in [1, 3, 64, 4096] {
            let tags = tags(partitions);
            assert_eq!(tags.len(), partitions);
            for (share, tag) in tags.iter().enumerate() {
                assert_eq!(usize::from(crc16(tag.as_bytes())) % SLOTS * partitions / SLOTS, share);
            }
        }
    }

    #[test]
    fn names_never_change() {
        // What is in Redis was named by an older version.
        let names = Names::new("bowline", 64);
        let stream = StreamId::from_bytes([7; 16]);
        assert_eq!(names.record(stream), "bowline:{1c}:s:07070707070707070707070707070707");
        assert_eq!(names.session("abc"), "bowline:{13}:e:abc");
        assert_eq!(names.lease(BackendId(1)), "bowline:{registry}:n:0000000000000001");
    }

    #[test]
    fn partitions_are_used_evenly() {
        let names = Names::new("b", 16);
        let mut counts = [0_usize; 16];
        for n in 0..16_000_u64 {
            let mut bytes = [0; 16];
            bytes[8..].copy_from_slice(&n.to_be_bytes());
            counts[names.partition(StreamId::from_bytes(bytes))] += 1;
        }
        assert!(counts.iter().all(|count| (700..1300).contains(count)), "{counts:?}");
    }
}
