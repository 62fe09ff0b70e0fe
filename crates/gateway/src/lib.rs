//! Puts a stdio MCP server behind resilient Streamable HTTP

pub mod child;
