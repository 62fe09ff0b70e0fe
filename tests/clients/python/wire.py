"""Watches what the client really sends and receives, without changing it: requests through hooks of its HTTP client,
messages through its read stream."""

import collections
import contextlib

import anyio
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client  # what the SDK itself uses by default
from mcp_types import CONNECTION_CLOSED, JSONRPCNotification, JSONRPCRequest

from report import Failed, expect


class Wire:
    def __init__(self):
        self.resumes = 0  # GETs with Last-Event-ID: attempts to resume a stream
        self.statuses = collections.Counter()  # by method, as {"GET 200": 3}
        self.responses = 0  # results and errors that were received
        self.tool_results = 0  # those of them that are of tools; the SDK lists tools by itself now and then
        self.notifications = collections.Counter()  # received, by method
        self.errors = []  # exceptions that the transport put into the stream
        self.session_id = None
        self.waiting = []

    @contextlib.asynccontextmanager
    async def transport(self, url):
        """The SDK's Streamable HTTP transport with its default settings, watched."""
        async with create_mcp_http_client() as http:
            http.event_hooks = {"request": [self.on_request], "response": [self.on_response]}
            async with streamable_http_client(url, http_client=http) as (read, write):
                yield Watched(read, self), write

    async def on_request(self, request):
        if "last-event-id" in request.headers:
            self.resumes += 1

    async def on_response(self, response):
        self.statuses[f"{response.request.method} {response.status_code}"] += 1
        self.session_id = response.headers.get("mcp-session-id", self.session_id)

    def see(self, item):
        if isinstance(item, Exception):
            self.errors.append(str(item))
        elif isinstance(item.message, JSONRPCNotification):
            self.notifications[item.message.method] += 1
            for check in list(self.waiting):
                check(item.message)
        elif not isinstance(item.message, JSONRPCRequest):
            error = getattr(item.message, "error", None)
            # The SDK says this to itself when a stream ends without a response, as that of a cancelled call does.
            self.responses += error is None or error.code != CONNECTION_CLOSED
            self.tool_results += "content" in (getattr(item.message, "result", None) or {})

    @contextlib.asynccontextmanager
    async def next(self, method, seconds, matches=lambda params: True):
        """Waits, when the block ends, for a notification that came since the block began. Gives a list; the
        notification's params are in it then."""
        came = anyio.Event()
        found = []

        def check(message):
            if message.method == method and matches(message.params or {}):
                found.append(message.params)
                came.set()

        self.waiting.append(check)
        try:
            yield found
            with anyio.move_on_after(seconds):
                await came.wait()
            expect(found, f"no {method} within {seconds} s")
        finally:
            self.waiting.remove(check)

    def summary(self):
        return {
            "resumes": self.resumes,
            "statuses": dict(self.statuses),
            "notifications": dict(self.notifications),
            "errors": self.errors[:20],
        }


class Watched:
    """A read stream that shows each item to the wire before it hands it on."""

    def __init__(self, stream, wire):
        self.stream, self.wire = stream, wire

    async def receive(self):
        item = await self.stream.receive()
        self.wire.see(item)
        return item

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self):
        await self.stream.aclose()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.stream.aclose()

    def __getattr__(self, name):
        return getattr(self.stream, name)


def text_of(result):
    """The text of a tool result's first content; fails on isError."""
    if result.is_error:
        raise Failed("the tool answered with isError", result=result)
    expect(result.content and result.content[0].type == "text", "the first content is not text", result=result)
    return result.content[0].text
