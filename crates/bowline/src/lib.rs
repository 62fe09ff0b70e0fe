//! MCP servers that never drop work
