"""The official Python SDK 2.x against the fixture server, in both protocol eras."""

import anyio
import arguments
import fixtures
from mcp import Client, StdioServerParameters, types
from mcp.client.subscriptions import ToolsListChanged
from report import Report, contains, equal


async def answer(_context, params):
    content = fixtures.answers_for(params.requested_schema)
    return types.ElicitResult(action="accept", content=content)


def connect(server, mode):
    return lambda: Client(server, mode=mode, elicitation_callback=answer, read_timeout_seconds=15)


def speaks(revision, *bodies):
    async def body(report, where, client):
        async with report.check(f"{where}: speaks {revision}"):
            equal(client.protocol_version, revision)
        for inner in bodies:
            await inner(report, where, client)

    return body


async def asks_by_result(report, where, client):
    """The modern way to ask: the call ends with a question and is made again with the answer."""
    async with report.check(f"{where}: an input_required result is answered"):
        result = await client.call_tool("test_input_required_result_elicitation", {})
        contains(fixtures.text_of(result), "Hello, Alice!")

    async with report.check(f"{where}: several rounds of questions are answered"):
        result = await client.call_tool("test_input_required_result_multi_round", {})
        equal(bool(fixtures.text_of(result)), True)


async def listens(report, where, client):
    async with report.check(f"{where}: a subscription hears of a changed tool list"):
        async with client.listen(tools_list_changed=True) as subscription:
            await client.call_tool("test_trigger_tool_change", {})
            async for event in subscription:
                equal(event, ToolsListChanged())
                break


async def main():
    args = arguments.parse(__doc__)
    report = Report()
    legacy = speaks("2025-11-25", fixtures.surface, fixtures.asks_the_user)
    modern = speaks("2026-07-28", fixtures.surface, asks_by_result, listens)

    await report.connection("http legacy", connect(args.url, "legacy"), legacy)
    await report.connection("http legacy", connect(args.url, "legacy"), fixtures.polls)
    await report.connection("cut legacy", connect(args.cut_url, "legacy"), fixtures.comes_back)
    await report.connection("http modern", connect(args.url, "2026-07-28"), modern)
    await report.connection("http probing", connect(args.url, "auto"), modern)
    if args.stdio:
        stdio = StdioServerParameters(command=args.stdio, args=["--stdio"])
        await report.connection("stdio legacy", connect(stdio, "legacy"), legacy)
        await report.connection("stdio modern", connect(stdio, "2026-07-28"), modern)
        await report.connection("stdio probing", connect(stdio, "auto"), modern)
    report.finish()


anyio.run(main)
