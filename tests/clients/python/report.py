"""The command line of the client script, and what it prints: one JSON object a line and step,
{"step": NAME, "ok": true|false, "ms": N, ...}, the last one being the step `done`. The same as the Node.js clients.

Exit status: 0 if every step passed, 1 if one failed, 2 for a wrong command line, 3 if the deadline passed.
"""

import argparse
import json
import os
import threading
import time


def options(scenarios):
    parser = argparse.ArgumentParser(description="A real MCP client: the Python SDK with stock settings.")
    parser.add_argument("url")
    parser.add_argument("scenario", choices=scenarios)
    parser.add_argument("--seconds", type=float, default=3, help="slow, cut, cancel: how long the call takes; jobs: how long the shortest one takes")
    parser.add_argument("--expect-once", action="store_true",
                        help="slow, cut: fail unless exactly one response was received (also watches for 1 s after it)")
    parser.add_argument("--no-repeats", action="store_true", help="slow, cut: fail if progress came twice")
    parser.add_argument("--min-resumes", type=int, default=1, help="cut: at least so many GETs with Last-Event-ID")
    parser.add_argument("--calls", type=int, default=100, help="many: how many calls")
    parser.add_argument("--parallel", type=int, default=10, help="many: how many at a time")
    parser.add_argument("--longest", type=float, default=10, help="jobs: how long the longest one takes")
    parser.add_argument("--until", default="", help="jobs: no more are begun once this file is there")
    parser.add_argument("--file", default="", help="jobs: the ledger, for the tool to write to")
    parser.add_argument("--name", default="job", help="jobs: what the keys of this client's jobs start with")
    parser.add_argument("--revision", default="2025-11-25", help="the revision that must be negotiated")
    parser.add_argument("--gone-status", type=int, default=404, help="everything: a request after the session's end")
    parser.add_argument("--mode", choices=["legacy", "auto", "modern"], default="legacy",
                        help="auto asks server/discover first, modern asks nothing else")
    parser.add_argument("--deadline", type=float, help="give up after so many seconds (default 90, and --seconds)")
    parsed = parser.parse_args()
    if parsed.deadline is None:
        parsed.deadline = 90 + parsed.seconds
    return parsed


class Failed(Exception):
    """A step that failed; the details go on its line."""

    def __init__(self, message, **details):
        super().__init__(message)
        self.details = details


def expect(condition, message, **details):
    """Fails the step with what was expected and what came."""
    if not condition:
        raise Failed(message, **details)


def write(**line):
    print(json.dumps(line, ensure_ascii=False, default=str), flush=True)


class Report:
    def __init__(self, deadline):
        self.passed = self.failed = 0
        self.now = "start"

        def give_up():
            write(step="deadline", ok=False, error=f"not done after {deadline} s", during=self.now)
            os._exit(3)  # from a thread, so that a client that blocks its event loop is ended too

        timer = threading.Timer(deadline, give_up)
        timer.daemon = True
        timer.start()

    async def step(self, name, work):
        """Runs one step and prints its line. `work` returns what else the line says; when it raises, the step failed,
        and the next steps run all the same. Returns whether the step passed."""
        self.now = name
        start = time.monotonic()
        try:
            line = {"ok": True} | (await work() or {})
            self.passed += 1
        except Exception as error:  # whatever a client can raise is a failed step
            code = {"code": error.code} if hasattr(error, "code") else {}
            line = {"ok": False, "error": describe(error)} | code | getattr(error, "details", {})
            self.failed += 1
        write(step=name, **line, ms=round((time.monotonic() - start) * 1000))
        return line["ok"]

    def finish(self):
        """Prints the last line and ends the process: what a client leaves running must not hang the test."""
        ok = self.failed == 0 and self.passed > 0
        write(step="done", ok=ok, steps=self.passed, broken=self.failed)
        os._exit(0 if ok else 1)


def describe(error):
    """An exception's text; of a group, the texts of all that is in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
