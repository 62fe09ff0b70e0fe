"""Scenario `facade`: what a modern client can do against the server of the conformance suite (bowline-conformance-server)."""

import anyio

from report import expect
from wire import text_of


async def facade(report, client, wire, asked, options):
    async def list_tools():
        names = {tool.name for tool in (await client.list_tools()).tools}
        expect("test_simple_text" in names, "no test_simple_text", names=sorted(names))
        return {"tools": len(names)}

    async def text():
        expect(text_of(await client.call_tool("test_simple_text")), "no text")

    async def elicitation():
        said = text_of(await client.call_tool("test_input_required_result_elicitation"))
        expect(said == "Hello, Ann Example!", "the answer did not reach the server", text=said)
        expect(asked["elicitation"] == 1, f"asked {asked['elicitation']} times instead of once")

    async def sampling():
        said = text_of(await client.call_tool("test_input_required_result_sampling"))
        expect("sampled: " in said, "not our answer", text=said)
        expect(asked["sampling"] == 1, f"asked {asked['sampling']} times instead of once")

    async def listen():
        async with client.listen(tools_list_changed=True) as events:
            await client.call_tool("test_trigger_tool_change")
            with anyio.fail_after(20):
                event = await anext(aiter(events))
        return {"event": type(event).__name__}

    for step in [list_tools, text, elicitation, sampling, listen]:
        await report.step(step.__name__.replace("_", "-"), step)
