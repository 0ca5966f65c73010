"""The approval of calls, and tools that changed since they were approved."""

import asyncio

import pytest

from fake_server import FakeServer, legacy, scene, text
from twopipes._host import approval
from twopipes._host.approval import Approvals
from twopipes.errors import CallDenied, LocalProtocolError
from twopipes.host import Allow, Deny, Edit, ServerGroup, ToolChange
from twopipes.types import Tool

CHANGED = "notifications/tools/list_changed"


def tools(*names, **members):
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}, **members} for name in names]}


def server(*names, make=FakeServer, **members):
    return make({"tools/list": tools(*names, **members)})


def listed(**members):
    return {"a__x": Tool("x", {"type": "object"}, **members)}


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


# The hook


@scene
async def test_the_hook_sees_the_server_the_tool_and_the_arguments():
    seen = []

    async def approve(server, tool, arguments):
        seen.append((server, tool.name, tool.tool.name, tool.changed, arguments))
        return Allow()

    fake = server("x.y")
    async with ServerGroup({"a": fake}, approve=approve) as group:
        assert (await group.call("a__x_y", {"n": 1})).text == "done"
        await group.call("a__x_y")
    assert seen == [("a", "a__x_y", "x.y", False, {"n": 1}), ("a", "a__x_y", "x.y", False, {})]
    assert [params.get("arguments") for params in fake.of("tools/call")] == [{"n": 1}, None]


@scene
async def test_a_plain_function_may_decide_too():
    async with ServerGroup({"a": server("x")}, approve=lambda *_: Allow()) as group:
        assert (await group.call("a__x")).text == "done"


@scene
async def test_a_denied_call_is_not_made():
    fake = server("x")
    async with ServerGroup({"a": fake}, approve=lambda *_: Deny("not today")) as group:
        with pytest.raises(CallDenied, match="the call of 'a__x' was denied: not today; nothing was sent") as caught:
            await group.call("a__x")
    assert (caught.value.server, caught.value.tool, caught.value.reason) == ("a", "a__x", "not today")
    assert fake.of("tools/call") == []


@scene
async def test_an_edited_call_is_made_with_the_other_arguments():
    fake = server("x")
    async with ServerGroup({"a": fake}, approve=lambda *_: Edit({"path": "safe"})) as group:
        await group.call("a__x", {"path": "/etc"})
    assert fake.of("tools/call")[0]["arguments"] == {"path": "safe"}


@pytest.mark.parametrize("outcome", [True, None, Allow, "allow", {}], ids=repr)
@scene
async def test_anything_but_a_decision_denies_the_call(outcome):
    fake = server("x")
    async with ServerGroup({"a": fake}, approve=lambda *_: outcome) as group:
        with pytest.raises(CallDenied, match=r"must return Allow\(\), Deny\(...\) or Edit\(...\), but returned"):
            await group.call("a__x")
    assert fake.of("tools/call") == []


@scene
async def test_a_hook_that_raises_denies_the_call():
    async def approve(server, tool, arguments):
        raise KeyError("bug")

    fake = server("x")
    async with ServerGroup({"a": fake}, approve=approve) as group:
        with pytest.raises(CallDenied, match=r"the approval hook failed: KeyError\('bug'\)") as caught:
            await group.call("a__x")
        assert isinstance(caught.value.__cause__, KeyError)
    assert fake.of("tools/call") == []


@scene
async def test_what_was_approved_is_sent_whatever_happens_to_the_objects_meanwhile():
    given = {"paths": ["safe"]}

    async def approve(server, tool, arguments):
        given["paths"].append("added by the caller")
        arguments["paths"].append("added by the hook")
        return Allow()

    fake = server("x")
    async with ServerGroup({"a": fake}, approve=approve) as group:
        await group.call("a__x", given)
    assert fake.of("tools/call")[0]["arguments"] == {"paths": ["safe"]}


@scene
async def test_arguments_that_are_not_json_never_reach_the_hook():
    fake = server("x")
    async with ServerGroup({"a": fake}, approve=lambda *_: pytest.fail("asked")) as group:
        with pytest.raises(LocalProtocolError, match="cannot be written as JSON"):
            await group.call("a__x", {"x": object()})


@scene
async def test_a_call_that_waits_for_approval_delays_no_other():
    asked, gate = asyncio.Event(), asyncio.Event()

    async def approve(server, tool, arguments):
        if server == "a":
            asked.set()
            await gate.wait()
        return Allow()

    async with ServerGroup({"a": server("x"), "b": server("x")}, approve=approve) as group:
        waiting = asyncio.create_task(group.call("a__x"))
        await asked.wait()
        assert (await group.call("b__x")).text == "done"
        gate.set()
        assert (await waiting).text == "done"


@pytest.mark.parametrize("after", [tools("x", description="other"), tools("y")], ids=["changed", "removed"])
@scene
async def test_a_tool_that_changes_while_its_call_waits_for_approval_is_not_called(after):
    fake = server("x", make=legacy)

    async def approve(server, tool, arguments):
        fake.answers["tools/list"] = after
        await group.list_tools(fresh=True)
        return Allow()

    async with ServerGroup({"a": fake}, approve=approve) as group:
        with pytest.raises(CallDenied, match="changed while the call waited"):
            await group.call("a__x")
    assert fake.of("tools/call") == []


@scene
async def test_a_legacy_server_that_comes_back_with_another_tool_is_not_called_without_a_new_approval():
    async def die(asked):
        fake.answers["tools/list"] = tools("x", annotations={"readOnlyHint": True}, description="other")
        await fake.hang_up()
        return text("never read")

    fake = server("x", make=legacy, annotations={"readOnlyHint": True})
    fake.answers["tools/call"] = [die, text("second")]
    seen = []
    async with ServerGroup({"a": fake}, approve=lambda server, tool, _: seen.append(tool.changed) or Allow()) as group:
        with pytest.raises(CallDenied, match="changed"):
            await group.call("a__x")
        assert (await group.call("a__x")).text == "second"
    assert seen == [False, True]


# Changed tools


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"description": "other"}, ("description",)),
        ({"title": "Other"}, ("title",)),
        ({"annotations": {"readOnlyHint": True}}, ("annotations",)),
        ({"inputSchema": {"type": "object", "required": ["x"]}}, ("input_schema",)),
        ({"outputSchema": {"type": "object"}, "description": "other"}, ("description", "output_schema")),
    ],
)
@scene
async def test_a_tool_that_changed_is_flagged_and_reported_once(members, what):
    changes = []
    fake = server("x", make=legacy)
    async with ServerGroup({"a": fake}, on_tool_changed=changes.append) as group:
        before = group.tools[0].tool
        fake.answers["tools/list"] = tools("x", **members)
        fake.notify(CHANGED)
        await until(lambda: changes)
        await group.list_tools(fresh=True)
        assert changes == [ToolChange(server="a", name="a__x", before=before, after=group.tools[0].tool, what=what)]
        assert group.tools[0].changed
        assert (await group.call("a__x")).text == "done"  # without a hook, a changed tool is only reported


@pytest.mark.parametrize("members", [{"icons": [{"src": "https://x.test/i.png"}]}, {"_meta": {"x": 1}}], ids=["icons", "meta"])
@scene
async def test_members_that_no_one_decides_by_may_change(members):
    fake = server("x")
    async with ServerGroup({"a": fake}) as group:
        fake.answers["tools/list"] = tools("x", **members)
        await group.list_tools(fresh=True)
        assert not group.tools[0].changed


@scene
async def test_allowing_a_call_of_a_changed_tool_approves_it():
    seen = []
    fake = server("x")
    async with ServerGroup({"a": fake}, approve=lambda server, tool, _: seen.append(tool.changed) or Allow()) as group:
        old = group.approved["a__x"]
        fake.answers["tools/list"] = tools("x", description="other")
        await group.list_tools(fresh=True)
        assert group.approved["a__x"] == old
        await group.call("a__x")
        await group.call("a__x")
        assert seen == [True, False]
        assert group.approved["a__x"] == group.tools[0].fingerprint != old


@scene
async def test_denying_a_call_of_a_changed_tool_does_not_approve_it():
    fake = server("x")
    async with ServerGroup({"a": fake}, approve=lambda *_: Deny()) as group:
        fake.answers["tools/list"] = tools("x", description="other")
        await group.list_tools(fresh=True)
        with pytest.raises(CallDenied):
            await group.call("a__x")
        assert group.tools[0].changed


@scene
async def test_a_host_without_a_hook_accepts_a_change():
    changes = []
    fake = server("x")
    async with ServerGroup({"a": fake}, on_tool_changed=changes.append) as group:
        fake.answers["tools/list"] = tools("x", description="other")
        await group.list_tools(fresh=True)
        assert not group.accept("a__x").changed
        assert not group.tools[0].changed
        fake.answers["tools/list"] = tools("x")
        await group.list_tools(fresh=True)
        assert (group.tools[0].changed, len(changes)) == (True, 2)
        with pytest.raises(LocalProtocolError, match="no tool 'a__y'"):
            group.accept("a__y")


@scene
async def test_the_approved_versions_of_an_earlier_run_are_compared():
    async with ServerGroup({"a": server("x", "y", description="old")}) as group:
        saved = group.approved
    assert sorted(saved) == ["a__x", "a__y"]
    changes = []
    fake = FakeServer({"tools/list": {"tools": [*tools("x", description="new")["tools"], *tools("y", description="old")["tools"]]}})
    async with ServerGroup({"a": fake}, approved=saved, on_tool_changed=changes.append) as group:
        assert [(tool.name, tool.changed) for tool in group.tools] == [("a__x", True), ("a__y", False)]
        assert [(change.name, change.before, change.what) for change in changes] == [("a__x", None, ())]
        assert group.approved == saved


@scene
async def test_a_tool_that_disappears_and_comes_back_changed_is_flagged():
    fake = server("x")
    async with ServerGroup({"a": fake}) as group:
        for names, members in [(["y"], {}), (["x"], {"description": "other"})]:
            fake.answers["tools/list"] = tools(*names, **members)
            await group.list_tools(fresh=True)
        assert group.tools[0].changed


@scene
async def test_a_server_that_is_replaced_under_the_same_name_is_compared():
    async with ServerGroup({"a": server("x")}) as group:
        await group.remove("a")
        await group.add("a", server("x", description="other"))
        assert group.tools[0].changed


def test_the_same_definition_under_another_server_is_another_version():
    approvals = Approvals(None, {})
    one = approvals.check("a", listed(), {})["a__x"]
    assert approvals.check("b", listed(), {})["a__x"].fingerprint != one.fingerprint


def test_the_order_of_members_does_not_matter():
    approvals = Approvals(None, {})
    approvals.check("a", {"a__x": Tool("x", {"type": "object", "required": []})}, {})
    assert not approvals.check("a", {"a__x": Tool("x", {"required": [], "type": "object"})}, {})["a__x"].changed


def test_a_server_that_invents_names_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr(approval, "_MAX_UNLISTED", 10)
    approvals = Approvals(None, {"a__saved": "1"})
    for number in range(100):
        approvals.check("a", {f"a__{number}": Tool(str(number), {}), "a__x": Tool("x", {})}, {})
    kept = approvals.fingerprints
    assert len(kept) == 13  # ten old ones, the two that are listed, and the one that the host gave
    assert {"a__saved", "a__x", "a__99", "a__89"} <= kept.keys()
