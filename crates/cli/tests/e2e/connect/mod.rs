//! `bowline connect`: a host on one side, servers that come and go on the other.

mod arguments;
mod away;
mod endings;
mod host;
mod login;
mod real;
mod restarts;
