"""Counts checks and prints one line for each; the last line is `N passed, M failed`."""

import sys
import traceback
from contextlib import asynccontextmanager

import anyio

# Far above what a check takes; a client that hangs must say so instead of stopping the run.
LIMIT_SECONDS = 20


class Report:
    def __init__(self):
        self.passed = 0
        self.failed = 0

    @asynccontextmanager
    async def check(self, name):
        """The body is the check: it passes unless it raises or hangs."""
        try:
            with anyio.fail_after(LIMIT_SECONDS):
                yield
        except Exception as error:
            self.failed += 1
            print(f"FAIL {name}: {reason(error)}", flush=True)
            traceback.print_exception(error, file=sys.stderr)
        else:
            self.passed += 1
            print(f"ok   {name}", flush=True)

    async def connection(self, where, connect, body):
        """Runs `body` with a connected client. Its own checks catch what goes wrong in them, so
        anything that arrives here is about connecting or parting."""
        connected = False
        try:
            async with connect() as client:
                connected = True
                await body(self, where, client)
        except Exception as error:
            self.failed += 1
            what = "disconnect" if connected else "connect"
            print(f"FAIL {where}: {what}: {reason(error)}", flush=True)
            traceback.print_exception(error, file=sys.stderr)
        else:
            self.passed += 1
            print(f"ok   {where}: connect and disconnect", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed else 0)


def reason(error):
    """One line, with the members of an exception group instead of its own empty words."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(reason(member) for member in error.exceptions)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


def contains(found, part):
    if part not in found:
        raise AssertionError(f"{part!r} is not in {found!r}")
