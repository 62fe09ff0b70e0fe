"""Scenario `everything`: what a client can do, against @modelcontextprotocol/server-everything 2026.8.31, either directly
(its own streamableHttp mode) or behind a gateway (its stdio mode)."""

import base64

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from report import expect
from wire import text_of

LONG = "trigger-long-running-operation"
TEXT = "demo://resource/dynamic/text/1"


async def everything(report, client, wire, asked, options):
    async def list_tools():
        names = {tool.name for tool in (await client.list_tools()).tools}
        # The last three are there only if the server saw our capabilities.
        wanted = {"echo", "get-sum", LONG, "trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"}
        expect(wanted <= names, f"missing tools: {wanted - names}", names=sorted(names))
        return {"tools": len(names)}

    async def echo():
        text = text_of(await client.call_tool("echo", {"message": "héllo\nworld ✓"}))
        expect(text == "Echo: héllo\nworld ✓", "not what was sent", text=text)

    async def add():
        text = text_of(await client.call_tool("get-sum", {"a": 2, "b": 40}))
        expect("42" in text, "wrong sum", text=text)

    async def structured_content():
        result = await client.call_tool("get-structured-content", {"location": "Chicago"})
        expect("temperature" in (result.structured_content or {}), "no structured content", result=result)

    async def progress():
        before = wire.notifications["notifications/progress"]
        seen = []

        async def on_progress(done, total, message):
            seen.append(done)

        text = text_of(await client.call_tool(LONG, {"duration": 1, "steps": 5}, 30, on_progress))
        received = wire.notifications["notifications/progress"] - before
        expect("completed" in text, "not the result of the operation", text=text)
        expect(received == 5, f"received {received} progress notifications instead of 5", seen=seen)
        # Callbacks are tasks of their own in this SDK: the last may not have run when the result is there.
        expect(seen == sorted(seen), "progress out of order", seen=seen)
        return {"received": received, "delivered": len(seen)}

    async def unknown_tool():
        try:
            result = await client.call_tool("no-such-tool", {})
        except MCPError as error:
            expect(error.code == -32602, "neither isError nor -32602", code=error.code, text=str(error))
            return {"answer": "error", "code": error.code}
        expect(result.is_error, "a tool that does not exist answered", result=result)
        return {"answer": "isError"}

    async def resources():
        listed = (await client.list_resources()).resources
        expect(listed, "no resources")
        contents = (await client.read_resource(listed[0].uri)).contents
        expect(contents[0].text, "an empty resource", uri=listed[0].uri)
        return {"resources": len(listed), "characters": len(contents[0].text)}

    async def templates():
        listed = (await client.list_resource_templates()).resource_templates
        expect(len(listed) == 2, "not two templates", templates=listed)
        text = (await client.read_resource(TEXT)).contents[0].text
        expect(text.startswith("Resource 1:"), "not resource 1", text=text)
        blob = (await client.read_resource("demo://resource/dynamic/blob/7")).contents[0].blob
        expect(base64.b64decode(blob).startswith(b"Resource 7:"), "not resource 7", blob=blob)

    async def listen():
        async with client.listen(resource_subscriptions=[TEXT]) as events:
            text = text_of(await client.call_tool("toggle-subscriber-updates"))
            expect(text.startswith("Started"), "updates were not started", text=text)
            with anyio.fail_after(20):
                event = await anext(aiter(events))
            text_of(await client.call_tool("toggle-subscriber-updates"))
            return {"event": type(event).__name__}

    async def subscribe():
        await client.subscribe_resource(TEXT)
        # The server sends one update at once and one every 5 s; the first may find no standalone stream yet.
        async with wire.next("notifications/resources/updated", 20, lambda params: params.get("uri") == TEXT):
            text = text_of(await client.call_tool("toggle-subscriber-updates"))
            expect(text.startswith("Started"), "updates were not started", text=text)
        text_of(await client.call_tool("toggle-subscriber-updates"))
        await client.unsubscribe_resource(TEXT)

    async def prompts():
        listed = (await client.list_prompts()).prompts
        expect(any(prompt.name == "args-prompt" for prompt in listed), "no args-prompt", prompts=listed)
        messages = (await client.get_prompt("args-prompt", {"city": "Ulm"})).messages
        expect("Ulm" in messages[0].content.text, "the argument is not in the prompt", messages=messages)
        return {"prompts": len(listed)}

    async def completion():
        ref = types.PromptReference(name="completable-prompt")
        first = (await client.complete(ref, {"name": "department", "value": "E"})).completion.values
        expect(first == ["Engineering"], "wrong completion", first=first)
        second = await client.complete(ref, {"name": "name", "value": ""}, {"department": "Sales"})
        expect(second.completion.values == ["David", "Eve", "Frank"], "the context was not used", second=second)
        template = types.ResourceTemplateReference(uri="demo://resource/dynamic/text/{resourceId}")
        third = (await client.complete(template, {"name": "resourceId", "value": "12"})).completion.values
        expect(third == ["12"], "wrong completion of a template", third=third)

    async def elicitation():
        result = await client.call_tool("trigger-elicitation-request")
        text = "\n".join(content.text for content in result.content)
        expect("Name: Ann Example" in text, "the answer did not reach the server", text=text)
        expect(asked["elicitation"] == 1, f"asked {asked['elicitation']} times instead of once")

    async def sampling():
        text = text_of(await client.call_tool("trigger-sampling-request", {"prompt": "a question", "maxTokens": 10}))
        expect("sampled: Resource trigger-sampling-request context: a question" in text, "not our answer", text=text)
        expect(asked["sampling"] == 1, f"asked {asked['sampling']} times instead of once")

    async def roots():
        text = text_of(await client.call_tool("get-roots-list"))
        expect("file:///srv/example" in text, "our root did not reach the server", text=text)
        return {"asked": asked["roots"]}

    async def logging():
        await client.set_logging_level("debug")
        async with wire.next("notifications/message", 20, lambda params: "evel" in str(params.get("data"))) as found:
            text = text_of(await client.call_tool("toggle-simulated-logging"))
            expect(text.startswith("Started"), "logging was not started", text=text)
        text_of(await client.call_tool("toggle-simulated-logging"))
        return {"level": found[0]["level"]}

    async def ping():
        await client.send_ping()

    modern = wire.session_id is None
    steps = [list_tools, echo, add, structured_content, progress, unknown_tool, resources, templates,
             listen if modern else subscribe, prompts, completion, elicitation, sampling, roots]
    # A modern client has no session, no log level for all and no `ping`.
    steps += [] if modern else [logging, ping]
    for step in steps:
        await report.step({"add": "sum"}.get(step.__name__, step.__name__.replace("_", "-")), step)
