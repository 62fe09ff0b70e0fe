//! Serves MCP over Streamable HTTP: sessions, calls that outlive their connection, resumption
