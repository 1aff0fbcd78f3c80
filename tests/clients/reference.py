"""The official Python SDK 2.x, without a handshake, and a server it could not talk to directly: the
reference server of the protocol's own project, which knows only the handshake, behind the gateway.
"""

import argparse

import anyio
from fixtures import text_of
from mcp import Client, types
from mcp.client.subscriptions import ResourceUpdated
from report import Report, contains, equal

# What the gateway puts before names and URIs.
NAME = "reference_"
URI = "reference+"

TOOLS = """
echo get-annotated-message get-env get-resource-links get-resource-reference get-roots-list
get-structured-content get-sum get-tiny-image gzip-file-as-resource simulate-research-query
toggle-simulated-logging toggle-subscriber-updates trigger-elicitation-request
trigger-long-running-operation trigger-sampling-request trigger-url-elicitation
""".split()
PROMPTS = ["args-prompt", "completable-prompt", "resource-prompt", "simple-prompt"]
DOCUMENT = f"{URI}demo://resource/static/document/features.md"


class User:
    """Answers what the server asks, and remembers it."""

    def __init__(self):
        self.asked = []

    async def fill_in(self, _context, params):
        self.asked.append(params)
        if params.mode == "url":
            return types.ElicitResult(action="accept")
        content = {"name": "Ada", "check": True, "integer": 7, "titledMultipleSelectEnum": ["fish-2"]}
        return types.ElicitResult(action="accept", content=content)

    async def write(self, _context, params):
        self.asked.append(params)
        content = types.TextContent(type="text", text="A sampled sentence.")
        return types.CreateMessageResult(
            role="assistant", content=content, model="none", stop_reason="endTurn"
        )


def ours(found):
    """The names that come from the reference server, without what the gateway put before them."""
    return sorted(name.removeprefix(NAME) for name in found if name.startswith(NAME))


async def lists(report, client):
    async with report.check("list tools"):
        tools = (await client.list_tools()).tools
        equal(ours(tool.name for tool in tools), TOOLS)
        echo = next(tool for tool in tools if tool.name == f"{NAME}echo")
        equal(echo.input_schema["required"], ["message"])
        equal(echo.annotations.read_only_hint, True)

    async with report.check("list prompts"):
        equal(ours(prompt.name for prompt in (await client.list_prompts()).prompts), PROMPTS)

    async with report.check("list resources and templates"):
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        contains(uris, DOCUMENT)
        templates = (await client.list_resource_templates()).resource_templates
        contains(
            [template.uri_template for template in templates],
            f"{URI}demo://resource/dynamic/text/{{resourceId}}",
        )


async def calls(report, client):
    async with report.check("call a tool"):
        result = await client.call_tool(f"{NAME}echo", {"message": "grüß dich"})
        equal(text_of(result), "Echo: grüß dich")

    async with report.check("call a tool with numbers"):
        result = await client.call_tool(f"{NAME}get-sum", {"a": 2.5, "b": 40})
        equal(text_of(result), "The sum of 2.5 and 40 is 42.5.")

    async with report.check("structured content"):
        result = await client.call_tool(f"{NAME}get-structured-content", {"location": "Chicago"})
        equal(result.structured_content["temperature"], 36)

    async with report.check("an image"):
        content = (await client.call_tool(f"{NAME}get-tiny-image", {})).content
        contains([item.type for item in content], "image")

    async with report.check("wrong arguments are told"):
        result = await client.call_tool(f"{NAME}get-sum", {"a": "two", "b": 40})
        equal(result.is_error, True)

    async with report.check("progress arrives in order"):
        seen = []

        async def on_progress(progress, total, _message):
            seen.append((progress, total))

        arguments = {"duration": 0.4, "steps": 4}
        name = f"{NAME}trigger-long-running-operation"
        result = await client.call_tool(name, arguments, progress_callback=on_progress)
        contains(text_of(result), "Long running operation completed.")
        equal(seen, [(step, 4) for step in range(1, 5)])


async def questions(report, client, user):
    async with report.check("its elicitation is answered"):
        user.asked.clear()
        result = await client.call_tool(f"{NAME}trigger-elicitation-request", {})
        contains(text_of(result), "- Name: Ada\n- Agreed to terms: true")
        contains(text_of(result), "- Favorite Integer: 7")
        contains(user.asked[0].requested_schema["properties"], "legacyTitledEnum")

    async with report.check("its elicitation of a visit is answered"):
        user.asked.clear()
        arguments = {"url": "https://example.org/visit", "message": "Please look."}
        result = await client.call_tool(f"{NAME}trigger-url-elicitation", arguments)
        contains(text_of(result), "User completed the URL elicitation flow.")
        equal([(asked.url, asked.message) for asked in user.asked], [tuple(arguments.values())])

    async with report.check("its sampling is answered"):
        user.asked.clear()
        arguments = {"prompt": "Say something.", "maxTokens": 17}
        result = await client.call_tool(f"{NAME}trigger-sampling-request", arguments)
        contains(text_of(result), "A sampled sentence.")
        equal([asked.max_tokens for asked in user.asked], [17])


async def resources_and_prompts(report, client):
    async with report.check("read a resource"):
        contents = (await client.read_resource(DOCUMENT)).contents
        equal(str(contents[0].uri), DOCUMENT)
        contains(contents[0].text, "trigger-sampling-request")

    async with report.check("read a resource of a template, found by its link"):
        result = await client.call_tool(f"{NAME}get-resource-links", {"count": 2})
        uri = next(str(item.uri) for item in result.content if "/text/" in getattr(item, "uri", ""))
        contents = (await client.read_resource(uri)).contents
        contains(contents[0].text, "Resource 2:")

    async with report.check("get a prompt"):
        arguments = {"city": "Bonn", "state": "NRW"}
        result = await client.get_prompt(f"{NAME}args-prompt", arguments)
        equal(result.messages[0].content.text, "What's weather in Bonn, NRW?")

    async with report.check("complete an argument"):
        result = await client.complete(
            types.PromptReference(type="ref/prompt", name=f"{NAME}completable-prompt"),
            {"name": "name", "value": "A"},
            context_arguments={"department": "Engineering"},
        )
        equal(result.completion.values, ["Alice"])

    async with report.check("a subscription hears of a changed resource"):
        async with client.listen(resource_subscriptions=[DOCUMENT]) as subscription:
            # It reports at once and then every five seconds, until it is called again.
            await client.call_tool(f"{NAME}toggle-subscriber-updates", {})
            async for event in subscription:
                equal(event, ResourceUpdated(uri=DOCUMENT))
                break
            await client.call_tool(f"{NAME}toggle-subscriber-updates", {})


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the MCP endpoint of the gateway")
    args = parser.parse_args()
    report = Report()
    user = User()

    async def body(report, _where, client):
        await lists(report, client)
        await calls(report, client)
        await questions(report, client, user)
        await resources_and_prompts(report, client)

    def connect():
        return Client(
            args.url,
            mode="2026-07-28",
            elicitation_callback=user.fill_in,
            sampling_callback=user.write,
            read_timeout_seconds=15,
        )

    await report.connection("gateway", connect, body)
    report.finish()


anyio.run(main)
