"""The echo on the Python SDK, without sessions and with answers in JSON: `echo.py PORT`."""

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo", log_level="ERROR")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Says it back"""
    return text


server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=True, json_response=True)
