//! Which process listens on a port. Linux only, and only for processes that this user may look at.

use std::fs;

/// The state `LISTEN` in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The name and id of a process that listens on `port`, as `name (pid 1)`.
pub(crate) fn listener(port: u16) -> Option<String> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| fs::read_to_string(path).ok());
    let links: Vec<String> =
        tables.flat_map(|table| sockets(&table, port)).map(|inode| format!("socket:[{inode}]")).collect();
    if links.is_empty() {
        return None;
    }
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        let owns = descriptors.flatten().any(|descriptor| {
            fs::read_link(descriptor.path())
                .is_ok_and(|target| links.iter().any(|link| target.as_os_str() == link.as_str()))
        });
        if owns {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
            return Some(format!("{name} (pid {pid})"));
        }
    }
    None
}

/// The inodes of the sockets that listen on `port`.
fn sockets(table: &str, port: u16) -> Vec<String> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let ours = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == LISTENING;
        let inode = *fields.get(9)?;
        ours.then(|| inode.to_owned())
    };
    table.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_the_kernel() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
   1: 0100007F:1F40 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4244 1 0 100 0 0 10 0
   3: short";
        assert_eq!(sockets(table, 8000), ["4242"]);
        assert_eq!(sockets(table, 80), ["4244"]);
        assert!(sockets(table, 81).is_empty());
    }
}
