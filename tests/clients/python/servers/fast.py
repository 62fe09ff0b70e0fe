"""An HTTP server on the PyPI package fastmcp, stock settings. fast.py PORT LEDGER; the tools are those of every server here (see
tests/README.md)."""

import sys

import anyio
import uvicorn
from fastmcp import FastMCP

port, ledger = int(sys.argv[1]), sys.argv[2]
server = FastMCP("fastmcp")


@server.tool
def echo(text: str) -> str:
    return text


@server.tool
async def count(note: str, ms: int) -> str:
    with open(ledger, "a") as file:
        file.write(f"{note}\n")
    await anyio.sleep(ms / 1000)
    return f"counted {note}"


class Ready(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("ready", flush=True)


Ready(uvicorn.Config(server.http_app(), host="127.0.0.1", port=port, log_level="warning")).run()
