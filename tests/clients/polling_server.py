"""A server that cuts its streams, for the self-test of the clients' scenario `cut`: stateful, 2025-11-25, one tool `slow`.

Each response stream is primed, shows what is there and is ended after --hold seconds, with a graceful close or, with --reset,
by resetting the connection. The client polls with GET and Last-Event-ID. Prints its port. Python's standard library only.
"""

import argparse
import http.server
import itertools
import json
import socket
import struct
import threading
import time

RETRY_MS = 200


class Stream:
    """The messages of one call; an event id is "stream.offset.poll", so that every connection shows a new one."""

    def __init__(self):
        self.changed = threading.Condition()
        self.messages, self.polls, self.sealed = [], itertools.count(1), False

    def add(self, message, sealed=False):
        with self.changed:
            self.messages.append(json.dumps({"jsonrpc": "2.0"} | message))
            self.sealed = sealed
            self.changed.notify_all()


def work(stream, request_id, params):
    arguments, token = params["arguments"], params.get("_meta", {}).get("progressToken")
    for done in range(1, arguments["progress"] + 1):
        time.sleep(arguments["ms"] / 1000 / arguments["progress"])
        if token is not None:
            progress = {"progressToken": token, "progress": done, "total": arguments["progress"]}
            stream.add({"method": "notifications/progress", "params": progress})
    text = f"slow: {arguments['ms']} ms"
    stream.add({"id": request_id, "result": {"content": [{"type": "text", "text": text}]}}, sealed=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    streams = {}

    def log_message(self, *_):
        pass

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self.empty(202)
        if message["method"] == "initialize":
            info = {"name": "polling", "version": "1.0.0"}
            return self.result(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        if message["method"] == "tools/list":
            return self.result(message, {"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]})
        key = str(len(self.streams))
        stream = self.streams[key] = Stream()
        threading.Thread(target=work, args=(stream, message["id"], message["params"]), daemon=True).start()
        return self.show(key, 0)

    def do_GET(self):
        cursor = self.headers.get("last-event-id")
        if cursor is None:
            return self.empty(405)
        key, offset, _ = cursor.split(".")
        return self.show(key, int(offset))

    def do_DELETE(self):
        self.empty(200)

    def empty(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def result(self, message, result):
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("mcp-session-id", "the-session")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def show(self, key, offset):
        """Sends what comes after the offset until the response is out or the hold is over."""
        stream, until = self.streams[key], time.monotonic() + self.server.hold
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        poll = next(stream.polls)
        self.wfile.write(f"id: {key}.{offset}.{poll}\nretry: {RETRY_MS}\ndata:\n\n".encode())
        while True:
            with stream.changed:
                left = until - time.monotonic()
                stream.changed.wait_for(lambda: len(stream.messages) > offset or stream.sealed, max(left, 0))
                new, sealed = stream.messages[offset:], stream.sealed
            for message in new:
                offset += 1
                self.wfile.write(f"id: {key}.{offset}.{poll}\ndata: {message}\n\n".encode())
            if sealed:
                return
            if time.monotonic() >= until:
                break
        if self.server.reset:
            self.wfile.flush()
            time.sleep(0.05)  # a reset may overtake what was sent just before it
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.server.close_request(self.request)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client that leaves, and our own resets, are no news

    def shutdown_request(self, request):
        if request.fileno() != -1:
            super().shutdown_request(request)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hold", type=float, default=0.5, help="seconds until a stream is ended")
    parser.add_argument("--reset", action="store_true", help="end it by resetting the connection")
    options = parser.parse_args()
    server = Server(("127.0.0.1", 0), Handler)
    server.hold, server.reset = options.hold, options.reset
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
