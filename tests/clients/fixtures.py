"""What every client must see of the fixture server `everything`, whatever the transport.

`client` is a session of either Python SDK; the methods used here are the same in both.
"""

from report import contains, equal

SIMPLE_TEXT = "This is a simple text response for testing."
STATIC_TEXT = "This is the content of the static text resource."

ANSWERS = {"username": "ada", "email": "ada@example.org", "name": "Alice"}


def answers_for(schema):
    """Fills the form the server asks for."""
    return {name: ANSWERS.get(name, "text") for name in schema.get("properties", {})}


def text_of(result):
    return "".join(getattr(item, "text", "") for item in result.content)


async def surface(report, where, client):
    """Lists, calls, progress, errors, resources, prompts."""
    async with report.check(f"{where}: list tools"):
        names = [tool.name for tool in (await client.list_tools()).tools]
        for name in ["test_simple_text", "test_tool_with_progress", "test_error_handling"]:
            contains(names, name)

    async with report.check(f"{where}: call a tool"):
        equal(text_of(await client.call_tool("test_simple_text", {})), SIMPLE_TEXT)

    async with report.check(f"{where}: a tool's error is a result"):
        result = await client.call_tool("test_error_handling", {})
        # The two SDKs spell the member differently.
        equal(getattr(result, "is_error", getattr(result, "isError", None)), True)

    async with report.check(f"{where}: progress arrives in order"):
        await progress(client)

    async with report.check(f"{where}: read a resource"):
        resources = (await client.list_resources()).resources
        contains([str(resource.uri) for resource in resources], "test://static-text")
        contents = (await client.read_resource("test://static-text")).contents
        equal(contents[0].text, STATIC_TEXT)

    async with report.check(f"{where}: get a prompt"):
        prompts = (await client.list_prompts()).prompts
        contains([prompt.name for prompt in prompts], "test_prompt_with_arguments")
        arguments = {"arg1": "hello", "arg2": "world"}
        result = await client.get_prompt("test_prompt_with_arguments", arguments)
        contains(result.messages[0].content.text, "arg1='hello', arg2='world'")


async def progress(client):
    """Each of the three reports exactly once and in order, then the result."""
    seen = []

    async def on_progress(progress, total, _message):
        seen.append((progress, total))

    result = await client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)
    equal(seen, [(0, 100), (50, 100), (100, 100)])
    equal(bool(text_of(result)), True)


async def asks_the_user(report, where, client):
    """The server asks, the client answers, the tool goes on."""
    async with report.check(f"{where}: elicitation is answered"):
        result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        contains(text_of(result), ANSWERS["username"])


async def comes_back(report, where, client):
    """The proxy in between cuts the connection after the first progress report."""
    async with report.check(f"{where}: a call outlives its connection"):
        await progress(client)


async def polls(report, where, client):
    """The server closes the stream itself and is asked again."""
    async with report.check(f"{where}: a stream the server closed is resumed"):
        result = await client.call_tool("test_reconnection", {})
        equal(bool(text_of(result)), True)
