"""The official Python SDK 1.x (2025-11-25 and older) against the fixture server."""

from contextlib import asynccontextmanager

import anyio
import arguments
import fixtures
import restart
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from report import Report, equal


async def answer(_context, params):
    return types.ElicitResult(action="accept", content=fixtures.answers_for(params.requestedSchema))


@asynccontextmanager
async def session(transport):
    async with transport as (read, write, *_):
        async with ClientSession(read, write, elicitation_callback=answer) as client:
            with anyio.fail_after(10):
                client.handshake = await client.initialize()
            yield client


async def common(report, where, client):
    async with report.check(f"{where}: the newest handshake revision is agreed"):
        equal(client.handshake.protocolVersion, "2025-11-25")
    await fixtures.surface(report, where, client)
    await fixtures.asks_the_user(report, where, client)


def survives(server):
    async def body(report, where, client):
        async with report.check(f"{where}: the session goes on"):
            await client.call_tool("test_simple_text", {})
            server.restart()
            result = await client.call_tool("test_simple_text", {})
            equal(fixtures.text_of(result), fixtures.SIMPLE_TEXT)

    return body


async def own_program(report, program):
    """What takes a server that this script may start and stop."""
    stdio = StdioServerParameters(command=program, args=["--stdio"])
    await report.connection("stdio", lambda: session(stdio_client(stdio)), common)
    with restart.server(program) as (server, url):
        await report.connection(
            "restart", lambda: session(streamable_http_client(url)), survives(server)
        )


async def main():
    args = arguments.parse(__doc__)
    report = Report()
    sse_url = args.url.removesuffix("/mcp") + "/sse"

    await report.connection("http", lambda: session(streamable_http_client(args.url)), common)
    await report.connection(
        "http", lambda: session(streamable_http_client(args.url)), fixtures.polls
    )
    await report.connection(
        "cut", lambda: session(streamable_http_client(args.cut_url)), fixtures.comes_back
    )
    await report.connection("sse", lambda: session(sse_client(sse_url)), common)
    if args.stdio:
        await own_program(report, args.stdio)
    report.finish()


anyio.run(main)
