"""Many clients on the Python SDK in one process, for `crates/soak`, which starts it, breaks its connections, kills it, and checks
what it writes down: `soak.py CONFIG`. Stock settings. The journal is that of `crates/soak/src/journal`; every line is on disk before what
it announces is done, so that a kill loses nothing."""

import contextlib
import json
import os
import random
import re
import sys
import time
import warnings

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import JSONRPCNotification, JSONRPCResponse

from wire import Watched

warnings.simplefilter("ignore", MCPDeprecationWarning)  # the legacy parts are what we test

CONFIG = json.loads(sys.argv[1])
JOURNAL = os.open(CONFIG["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def note(event, **fields):
    line = {"t": int(time.time() * 1000), "e": event} | fields
    os.write(JOURNAL, json.dumps(line).encode() + b"\n")


def left():
    return CONFIG["until"] - time.time() * 1000


def plan_of(chance):
    """What a call asks for."""
    long = CONFIG["longest_call"]
    choices = [0, 0, 0, chance.randint(0, long // 20), chance.randint(0, long // 4), chance.randint(long // 10, long)]
    ms = int(min(chance.choice(choices), left() + 2000))
    ms = max(ms, 0)
    return {
        "ms": ms,
        "progress": chance.randint(1, 2 + ms // 300) if chance.random() < 0.5 else 0,
        "size": chance.randint(4096, 400_000) if chance.random() < 0.12 else chance.randint(1, 2000),
        "ask": chance.choice(["elicit", "sample"] + ["none"] * 6),
        "log": chance.random() < 0.15,
    }


def payload(call, size):
    unit = f"{call}|"
    return (unit * (size // len(unit) + 1))[:size]


class Session:
    def __init__(self, name, url):
        self.name, self.url, self.next, self.broken = name, url, 1, False

    def heard(self, of, what):
        note("heard", session=self.name, of=of, what=what)

    def see(self, item):
        """Watches what comes before the SDK looks at it: a result that came twice is seen."""
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse):
            of = (message.result.get("structuredContent") or {}).get("call")
            if of:
                note("response", call=of)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/message":
            self.heard(message.params["data"]["call"], "log")

    @contextlib.asynccontextmanager
    async def transport(self):
        async with create_mcp_http_client(headers={"authorization": f"Bearer {CONFIG['token']}"}) as http:
            async with streamable_http_client(self.url, http_client=http) as (read, write):
                yield Watched(read, self), write

    async def elicitation(self, context, params):
        of = params.message.removeprefix("ask ")
        self.heard(of, "ask")
        return types.ElicitResult(action="accept", content={"call": of})

    async def sampling(self, context, params):
        content = params.messages[0].content
        content = content[0] if isinstance(content, list) else content
        of = content.text.removeprefix("ask ")
        self.heard(of, "ask")
        text = types.TextContent(type="text", text=f"answer {of}")
        return types.CreateMessageResult(role="assistant", model="none", stop_reason="endTurn", content=text)

    async def run(self, client, chance):
        call, self.next = f"{self.name}.{self.next}", self.next + 1
        plan = plan_of(chance)
        intent = "cancel" if chance.random() < 0.07 else "finish"
        bound = plan["ms"] + CONFIG["grace"]
        note("sent", call=call, plan=plan, intent=intent, bound_ms=bound + 5000)

        async def on_progress(done, total, message):
            note("progress", call=call, of=message or "", n=int(done))

        after = chance.uniform(0, plan["ms"] + 200) / 1000 if intent == "cancel" else float("inf")
        # Once the SDK's writer has ended, a call waits for ever to be sent: its own time-out counts from then.
        how = {"how": "lost", "why": "the client has ended"}  # by its own error: then everything in it is cancelled
        try:
            with anyio.move_on_after(min(after, bound / 1000 + 3)) as scope:
                how = await self.outcome(client, call, plan, bound / 1000, on_progress)
            if scope.cancelled_caught:
                how = {"how": "cancelled" if intent == "cancel" else "timeout"}
        finally:
            note("end", call=call, **how)
        # A POST that is cut ends the SDK's writer, and with it every later call of this client.
        self.broken |= how["how"] in ("lost", "timeout")

    async def outcome(self, client, call, plan, bound, on_progress):
        try:
            result = await client.call_tool("work", {"call": call} | plan, bound, on_progress)
        except MCPError as error:
            code, message, data = error.error.code, error.error.message, error.error.data
            refused = re.search(r"\b(429|503)\b", message)
            if refused:
                return {"how": "refused", "status": int(refused[1])}
            if isinstance(data, dict) and "reason" in data:
                reason, outcome = data["reason"], data.get("outcome")
                return {"how": "error", "code": code, "reason": reason, "outcome": outcome, "message": message}
            if "timed out" in message.lower():
                return {"how": "timeout"}
            return {"how": "lost", "why": f"{code} {message}"}
        except Exception as error:  # whatever the SDK throws for a connection that failed
            return {"how": "lost", "why": repr(error)}
        structured = result.structured_content or {}
        good = result.content[0].text == payload(call, plan["size"])
        return {"how": "result", "of": structured.get("call", ""), "good": good, "asked": structured.get("asked", "")}

    async def live(self, chance):
        """From `initialize` to the end; the SDK sends DELETE when a client is closed."""
        client = Client(
            self.transport(),
            mode="legacy",
            client_info=types.Implementation(name="bowline-soak", version="1.0.0"),
            elicitation_callback=self.elicitation,
            sampling_callback=self.sampling,
        )
        async with client:
            note("opened", session=self.name)
            for _ in range(chance.randint(1, 8)):
                if left() <= 0 or self.broken:
                    break
                async with anyio.create_task_group() as calls:
                    for _ in range(chance.randint(2, 3) if chance.random() < 0.15 else 1):
                        calls.start_soon(self.run, client, chance)
                await anyio.sleep(chance.uniform(0, CONFIG["longest_pause"]) / 1000)
        note("closed", session=self.name, parting="left")


async def work(client, chance):
    """One client: session after session."""
    await anyio.sleep(chance.uniform(0, CONFIG["longest_pause"]) / 1000)
    number = 0
    while left() > 0:
        number += 1
        session = Session(f"{client['name']}/{CONFIG['incarnation']}.{number}", client["url"])
        try:
            await session.live(chance)
        except Exception as error:  # a connection that failed before the session was there, or while it was closed
            print(f"{session.name}: {error!r}", file=sys.stderr)
            await anyio.sleep(0.5)


async def main():
    async with anyio.create_task_group() as clients:
        for index, client in enumerate(CONFIG["clients"]):
            clients.start_soon(work, client, random.Random(CONFIG["seed"] + index))


if __name__ == "__main__":
    anyio.run(main)
