//! The store contract of Bowline (streams, sessions, mailboxes, backends) and the memory store
