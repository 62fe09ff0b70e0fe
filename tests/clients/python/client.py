"""The Python SDK as a real client for the end-to-end tests. Stock settings.

How it differs from the TypeScript clients:
- There is no call that ends the session: DELETE is sent when the client is closed, and what it was answered is only logged.
  So the steps `terminate` and `gone` come after `close`.
- It resumes any stream of which it has seen an id, priming event or not, and waits for `retry` first. After a graceful
  close it goes on for ever from the newest id. A resumed connection that is *reset* counts as a failed attempt whatever
  came on it, and the next attempt presents the id from before it: so events may come again (`repeats`; do not use
  --no-repeats), and the third reset with no graceful close between ends the call with an error.
- Its standalone stream is opened again without end after a graceful close, and given up for good after two failures.
- One SSE event of more than 1 MiB ends the stream with an error (`max_sse_event_size`); a JSON answer may be larger.
- With `--mode auto` it asks `server/discover` first and falls back to `initialize` on any error of a legacy server; with
  `--mode modern` it speaks the modern revision without asking.
"""

import collections
import contextlib
import itertools
import os
import secrets
import time
import warnings

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning

from everything import everything
from facade import facade
from report import Report, expect, options
from wire import Wire, text_of

warnings.simplefilter("ignore", MCPDeprecationWarning)  # the legacy parts are what we test


def answers(asked):
    """What the client answers when the server asks. `asked` counts."""

    async def elicitation(context, params):
        asked["elicitation"] += 1
        return types.ElicitResult(action="accept", content={"name": "Ann Example", "check": True, "integer": 7})

    async def sampling(context, params):
        asked["sampling"] += 1
        content = params.messages[0].content
        content = content[0] if isinstance(content, list) else content
        text = types.TextContent(type="text", text=f"sampled: {content.text}")
        return types.CreateMessageResult(role="assistant", model="none", stop_reason="endTurn", content=text)

    async def roots(context):
        asked["roots"] += 1
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv/example", name="example")])

    return {"elicitation_callback": elicitation, "sampling_callback": sampling, "list_roots_callback": roots}


async def long_call(client, seconds):
    """The long call of server-everything or of the fixture server: tool, arguments, a text that its result has in it."""
    steps = max(1, round(seconds))
    if any(tool.name == "trigger-long-running-operation" for tool in (await client.list_tools()).tools):
        return "trigger-long-running-operation", {"duration": seconds, "steps": steps}, "completed"
    return "slow", {"ms": round(seconds * 1000), "progress": steps}, "slow:"


async def slow(report, client, wire, asked, options):
    """One long call."""

    async def work():
        name, arguments, wanted = await long_call(client, options.seconds)
        before, start, seen = wire.responses, time.monotonic(), []

        async def on_progress(done, total, message):
            seen.append(done)

        text = text_of(await client.call_tool(name, arguments, options.seconds + 60, on_progress))
        seconds = time.monotonic() - start
        if options.expect_once:
            await anyio.sleep(1)
        results = wire.responses - before
        repeats = len(seen) - len(set(seen))
        details = {"results": results, "progress": len(seen), "repeats": repeats, "seconds": round(seconds, 3)}
        details |= wire.summary()
        expect(wanted in text, "not the result of the call", text=text, **details)
        expect(seconds >= options.seconds * 0.98, "the result came before the call can have ended", **details)
        expect(not options.expect_once or results == 1, f"received {results} responses instead of one", **details)
        expect(not options.no_repeats or repeats == 0, f"{repeats} progress notifications came again", **details)
        least = options.min_resumes if options.scenario == "cut" else 0
        expect(wire.resumes >= least, f"resumed {wire.resumes} times, not {least}: was it cut at all?", **details)
        return details

    await report.step(options.scenario, work)


async def cancel(report, client, wire, asked, options):
    """One long call that is cancelled after half a second: no response may come, and the session goes on."""

    async def work():
        name, arguments, _ = await long_call(client, options.seconds)
        before = wire.responses
        with anyio.move_on_after(0.5) as scope:
            await client.call_tool(name, arguments)
        expect(scope.cancelled_caught, "the call ended before it was cancelled")
        await anyio.sleep(options.seconds)
        results = wire.responses - before
        expect(results == 0, f"{results} responses came to a cancelled call", **wire.summary())
        await (client.send_ping() if wire.session_id else client.list_tools())
        return {"outcome": "cancelled"} | wire.summary()

    await report.step("cancel", work)


async def many(report, client, wire, asked, options):
    """Many echo calls at a time: an answer that goes to the wrong call is seen."""

    async def work():
        echo = next(tool for tool in (await client.list_tools()).tools if tool.name == "echo")
        argument = next(iter(echo.input_schema["properties"]))
        numbers, right, wrong = iter(range(options.calls)), [], []

        async def worker():
            for number in numbers:
                sent = f"{number} ✓ {secrets.token_urlsafe(number % 200)}"
                try:
                    answer = text_of(await client.call_tool("echo", {argument: sent}, 60))
                except Exception as error:  # a failed call is a wrong answer; the others go on
                    answer = repr(error)
                if answer in (sent, f"Echo: {sent}"):
                    right.append(number)
                else:
                    wrong.append({"sent": sent[:60], "answer": answer[:120]})

        start = time.monotonic()
        async with anyio.create_task_group() as workers:
            for _ in range(options.parallel):
                workers.start_soon(worker)
        details = {"calls": options.calls, "right": len(right), "seconds": round(time.monotonic() - start, 3)}
        details["statuses"] = dict(wire.statuses)
        complete = not wrong and len(right) == options.calls
        expect(complete, f"{len(wrong)} wrong answers", wrong=wrong[:5], **details)
        return details

    await report.step("many", work)


async def jobs(report, client, wire, asked, options):
    """Jobs one after another, several at a time, until a file is there: each takes --seconds to --longest, reports and, every
    other one, asks. Every one must end with its own result, which is received once."""

    async def work():
        before = wire.tool_results
        numbers, right, wrong, seen, begun, late = itertools.count(), [], [], [], [], [0.0]

        async def on_progress(done, total, message):
            seen.append(done)

        async def worker():
            while not os.path.exists(options.until):
                number = next(numbers)
                begun.append(number)
                key = f"{options.name}-{number}"
                # Spread evenly, the same in every run.
                seconds = options.seconds + (options.longest - options.seconds) * ((number * 0.618) % 1)
                ask = number % 2 == 0
                arguments = {"file": options.file, "key": key, "ms": round(seconds * 1000), "progress": max(2, round(seconds)), "ask": ask}
                start = time.monotonic()
                try:
                    answer = text_of(await client.call_tool("job", arguments, seconds + 60, on_progress))
                except Exception as error:  # a failed call is a wrong answer; the others go on
                    answer = repr(error)
                late.append(time.monotonic() - start - seconds)
                if answer == f"job {key}: {'Ann Example' if ask else '-'}":
                    right.append(key)
                else:
                    wrong.append({"key": key, "seconds": seconds, "after": time.monotonic() - start, "answer": answer[:300]})

        async with anyio.create_task_group() as workers:
            for _ in range(options.parallel):
                workers.start_soon(worker)
        results = wire.tool_results - before
        details = {"calls": len(begun), "right": len(right), "results": results, "progressed": len(seen)}
        details |= {"asked": asked["elicitation"], "latest": round(max(late), 1)} | wire.summary()
        expect(not wrong and len(right) == len(begun), f"{len(wrong)} wrong answers", wrong=wrong[:5], **details)
        expect(results == len(begun), f"received {results} responses to {len(begun)} calls", **details)
        return details

    await report.step("jobs", work)


SCENARIOS = {"everything": everything, "facade": facade, "slow": slow, "cut": slow, "cancel": cancel, "many": many, "jobs": jobs}


async def main():
    chosen = options(SCENARIOS)
    report, wire, asked = Report(chosen.deadline), Wire(), collections.Counter()
    open_client = contextlib.AsyncExitStack()
    client = Client(
        wire.transport(chosen.url),
        mode=chosen.revision if chosen.mode == "modern" else chosen.mode,
        client_info=types.Implementation(name="bowline-test", version="1.0.0"),
        **answers(asked),
    )

    async def connect():
        await open_client.enter_async_context(client)
        revision = client.protocol_version
        expect(revision == chosen.revision, f"negotiated {revision}, not {chosen.revision}")
        return {"revision": revision, "server": client.server_info.name if client.server_info else None, "session": wire.session_id is not None}

    async def close():
        await open_client.aclose()
        return wire.summary()

    async def terminate():
        deleted = [key for key in wire.statuses if key.startswith("DELETE")]
        expect(deleted in (["DELETE 200"], ["DELETE 204"]), "DELETE was not answered with 200 or 204", deleted=deleted)
        return {"deleted": deleted[0]}

    async def gone():
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-session-id": wire.session_id or "",
            "mcp-protocol-version": chosen.revision,
        }
        async with httpx2.AsyncClient() as http:
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            response = await http.post(chosen.url, json=ping, headers=headers)
        status = response.status_code
        expect(status == chosen.gone_status, f"status {status}, not {chosen.gone_status}", body=response.text[:300])
        return {"status": status}

    if await report.step("connect", connect):
        await SCENARIOS[chosen.scenario](report, client, wire, asked, chosen)
        await report.step("close", close)
        if chosen.scenario == "everything" and wire.session_id:
            await report.step("terminate", terminate)
            await report.step("gone", gone)
    report.finish()


if __name__ == "__main__":
    anyio.run(main)
