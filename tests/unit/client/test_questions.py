"""Questions of a server to the user, the model and the client, in both eras (sections RT, SA, EL and MR of the rules)."""

import asyncio
import json
from pathlib import Path

import pytest

from fake_server import FORM, SAMPLE, SILENCE, URL, FakeServer, Fault, asks, legacy, scene, text
from twopipes import Limits, McpError, RequestTimedOut, Timeouts, connect
from twopipes._protocol.revisions import LEGACY
from twopipes._protocol.types import CreateMessageResult, ElicitResult, Root, TextContent, ToolUseContent
from twopipes.errors import QuestionFailed, RemoteProtocolError, UserRefused
from twopipes.types import ClientOptions, InputRequired


def uri_of(path):
    """Return the address of a folder; on Windows it has a drive."""
    return Path(path).absolute().as_uri()


MODERN_URL = {key: value for key, value in URL.items() if key != "elicitationId"}
TOOLS = {**SAMPLE, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


async def answer_of(question, *, era, **callbacks):
    """Return the client's answer to one question of a server, in the way of the era."""
    method, params = question
    if era == "legacy":
        fake = legacy()
        async with connect(fake, **callbacks):
            line = await fake.ask(method, params)
        return line["error"] if "error" in line else line["result"]
    fake = FakeServer({"tools/call": [asks({"k": question}), text("done")]})
    async with connect(fake, **callbacks) as client:
        assert (await client.call_tool("x")).text == "done"
    return fake.of("tools/call")[1]["inputResponses"]["k"]


both_eras = pytest.mark.parametrize("era", ["legacy", "modern"])


# Roots


@both_eras
@scene
async def test_roots_are_file_uris(era, tmp_path):
    """RT-01, RT-02, MR-06: from paths, URIs and objects; a name where there is one."""
    given = [tmp_path, "file:///srv/data", Root("file:///home", "Home")]
    answer = await answer_of(("roots/list", {}), era=era, roots=given)
    assert answer["roots"] == [
        {"uri": tmp_path.as_uri(), "name": tmp_path.name},
        {"uri": "file:///srv/data"},
        {"uri": "file:///home", "name": "Home"},
    ]


@scene
async def test_a_root_that_is_not_a_file_uri_is_refused():
    """RT-01, ER-15: an internal error for the server, and a report for the program."""
    fake, reported = legacy(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with connect(fake, roots=["https://example.test/"]):
        assert (await fake.ask("roots/list"))["error"]["code"] == -32603
    assert "https://example.test/" in str(reported[0]["exception"])


@pytest.mark.parametrize("revision", LEGACY)
@scene
async def test_a_client_without_roots_or_a_model_responds_with_an_error(revision):
    """RT-02, ER-15, CP-02: method not found."""
    fake = legacy(revision=revision)
    async with connect(fake, revision=revision):
        assert (await fake.ask("roots/list"))["error"]["code"] == -32601
        assert (await fake.ask("sampling/createMessage", SAMPLE))["error"]["code"] == -32601
        assert (await fake.ask("elicitation/create", FORM))["error"]["code"] == -32601


@pytest.mark.parametrize("revision", LEGACY)
@scene
async def test_a_change_of_roots_is_announced_in_a_session(revision):
    """RT-03."""
    fake = legacy(revision=revision)
    async with connect(fake, revision=revision, roots=["/a"]) as client:
        client.set_roots(["/b"])
        await fake.until("notifications/roots/list_changed")
        assert (await fake.ask("roots/list"))["result"]["roots"][0]["uri"] == uri_of("/b")


@scene
async def test_a_change_of_roots_is_not_announced_on_the_stateless_wire():
    """RT-05: the next question gets the new ones."""
    fake = FakeServer({"tools/call": [asks({"k": ("roots/list", {})}), text("done")]})
    async with connect(fake, roots=["/a"]) as client:
        client.set_roots(["/b"])
        await client.call_tool("x")
    assert fake.methods == ["server/discover", "tools/call", "tools/call"]
    assert fake.of("tools/call")[1]["inputResponses"]["k"] == {"roots": [{"uri": uri_of("/b"), "name": "b"}]}


# Sampling


@both_eras
@scene
async def test_a_sampling_result_has_a_role_a_content_and_a_model(era):
    """SA-02, MR-06: from a string, or from a whole result."""
    said = await answer_of(("sampling/createMessage", SAMPLE), era=era, on_sample=lambda _: "Hello")
    assert said["role"] == "assistant"
    assert said["content"] == {"type": "text", "text": "Hello"}
    assert isinstance(said["model"], str)
    whole = CreateMessageResult("assistant", TextContent("Hello"), "m-1", "maxTokens")
    said = await answer_of(("sampling/createMessage", SAMPLE), era=era, on_sample=lambda _: whole)
    assert said == {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m-1", "stopReason": "maxTokens"}


@both_eras
@scene
async def test_the_callback_gets_the_token_limit(era):
    """SA-09, EL-14: and all other preferences, unchanged, with the name of the server."""
    seen = []

    def sample(question):
        seen.append((question.max_tokens, question.system_prompt, question.params.temperature, question.server.name))
        return "x"

    preferences = {**SAMPLE, "maxTokens": 123, "systemPrompt": "Be brief.", "temperature": 0.5}
    await answer_of(("sampling/createMessage", preferences), era=era, on_sample=sample)
    assert seen == [(123, "Be brief.", 0.5, "fake")]


@pytest.mark.parametrize("revision", LEGACY)
@scene
async def test_content_is_one_block_in_revisions_without_lists(revision):
    """SA-03, LC-11: an array, and the use of tools, from 2025-11-25 on."""
    many = CreateMessageResult("assistant", [TextContent("a"), ToolUseContent("1", "t", {})], "m", "toolUse")
    fake = legacy(revision=revision)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with connect(fake, revision=revision, on_sample=lambda _: many, options=ClientOptions(sample_tools=True)):
        answer = await fake.ask("sampling/createMessage", SAMPLE)
    if revision == "2025-11-25":
        assert [block["type"] for block in answer["result"]["content"]] == ["text", "tool_use"]
    else:
        assert "error" in answer or answer["result"]["content"]["type"] == "text"


@scene
async def test_tools_for_a_model_that_takes_none_are_refused():
    """SA-05, CP-05: by an error in a session; on the stateless wire by no retry and an error for the caller (CON-04)."""
    answer = await answer_of(("sampling/createMessage", TOOLS), era="legacy", on_sample=lambda _: "x")
    assert answer["code"] == -32602
    fake = FakeServer({"tools/call": asks({"k": ("sampling/createMessage", TOOLS)})})
    async with connect(fake, on_sample=lambda _: "x") as client:
        with pytest.raises(RemoteProtocolError, match="sampling with tools"):
            await client.call_tool("x")
    assert fake.methods.count("tools/call") == 1


@both_eras
@scene
async def test_tools_reach_a_model_that_takes_them(era):
    """SA-07: with the choice that the server left it."""
    seen = []

    def sample(question):
        seen.append((question.params.tools[0].name, question.params.tool_choice.mode))
        return "x"

    params = {**TOOLS, "toolChoice": {"mode": "none"}}
    await answer_of(("sampling/createMessage", params), era=era, on_sample=sample, options=ClientOptions(sample_tools=True))
    assert seen == [("t", "none")]


@pytest.mark.parametrize(("most", "refused"), [(3, False), (2, True), (None, False)])
@scene
async def test_a_server_that_lets_the_model_use_tools_for_ever_is_stopped(most, refused):
    """SA-12: requests of a session are not counted together, but the conversation itself shows its length."""
    turn = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "toolUseId": "1", "content": []}]},
    ]
    question = ("sampling/createMessage", {**TOOLS, "messages": [*SAMPLE["messages"], *turn, *turn, *turn]})
    limits = Limits(max_tool_turns=most)
    answer = await answer_of(
        question, era="legacy", on_sample=lambda _: "x", options=ClientOptions(sample_tools=True), limits=limits
    )
    assert (answer.get("code") == -32602) is refused
    assert ("3 turns" in answer.get("message", "")) is refused


@pytest.mark.parametrize(
    "turns",
    [
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]}],
        [{"role": "user", "content": [{"type": "tool_result", "toolUseId": "1", "content": []}]}],
    ],
)
@scene
async def test_a_conversation_in_which_tools_and_results_do_not_match_is_refused(turns):
    """SA-06: by an error in a session; on the stateless wire by no retry and an error for the caller (CON-04)."""
    question = ("sampling/createMessage", {**TOOLS, "messages": [*SAMPLE["messages"], *turns]})
    answer = await answer_of(question, era="legacy", on_sample=lambda _: "x", options=ClientOptions(sample_tools=True))
    assert answer["code"] == -32602
    fake = FakeServer({"tools/call": asks({"k": question})})
    async with connect(fake, on_sample=lambda _: "x", options=ClientOptions(sample_tools=True)) as client:
        with pytest.raises(RemoteProtocolError, match="an invalid conversation"):
            await client.call_tool("x")
    assert fake.methods.count("tools/call") == 1


def refuse(_question):
    raise UserRefused


@scene
async def test_a_refused_sampling_is_an_error_in_a_session_and_ends_the_call_on_the_stateless_wire():
    """SA-10, ER-15, MR-19."""
    answer = await answer_of(("sampling/createMessage", SAMPLE), era="legacy", on_sample=refuse)
    assert answer["code"] == -1
    fake = FakeServer({"tools/call": asks({"k": ("sampling/createMessage", SAMPLE)})})
    async with connect(fake, on_sample=refuse) as client:
        with pytest.raises(UserRefused):
            await client.call_tool("x")
        await client.ping()
    assert fake.methods == ["server/discover", "tools/call", "server/discover"]


def broken(_question):
    raise ZeroDivisionError("secret path")


@scene
async def test_a_callback_that_fails_is_an_internal_error_without_details():
    """ER-15, MR-19: the server gets no details, the program gets all of them."""
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    answer = await answer_of(("sampling/createMessage", SAMPLE), era="legacy", on_sample=broken)
    assert answer["code"] == -32603
    assert "secret" not in str(answer)
    assert isinstance(reported[0], QuestionFailed)
    assert isinstance(reported[0].__cause__, ZeroDivisionError)
    fake = FakeServer({"tools/call": asks({"k": ("sampling/createMessage", SAMPLE)})})
    async with connect(fake, on_sample=broken) as client:
        with pytest.raises(QuestionFailed, match="secret path"):
            await client.call_tool("x")
    assert fake.methods.count("tools/call") == 1


def asking(question, params):
    """A tool of a session that asks, and fails if it gets no answer: by its result, or by an error."""

    async def ask(asked):
        answer = await asked.fake.ask(question, params)
        if "result" in answer:
            return text("answered")
        return Fault(-32603, "no answer") if asked.params["name"] == "refuses" else text("no answer", isError=True)

    return {"tools/call": ask}


@pytest.mark.parametrize("tool", ["fails", "refuses"])
@both_eras
@scene
async def test_a_call_whose_question_broke_the_callback_ends_with_the_cause(era, tool):
    """MR-19: the error is in the caller's own program, and the call raises it."""
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    modern = FakeServer({"tools/call": asks({"k": ("elicitation/create", FORM)})})
    fake = modern if era == "modern" else legacy(asking("elicitation/create", FORM))
    async with connect(fake, on_elicit=broken) as client:
        with pytest.raises(QuestionFailed, match=r"elicitation/create failed during tools/call: .*secret path") as error:
            await client.call_tool(tool)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert reported == ([] if era == "modern" else [error.value])


@scene
async def test_a_call_of_a_session_that_did_well_in_spite_of_a_broken_callback_has_its_result():
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    async def ask(asked):
        assert "error" in await asked.fake.ask("elicitation/create", FORM)
        return text("went on without")

    async with connect(legacy({"tools/call": ask}), on_elicit=broken) as client:
        assert (await client.call_tool("x")).text == "went on without"
    assert [type(error) for error in reported] == [QuestionFailed]


@scene
async def test_with_several_calls_open_none_of_them_is_blamed_for_a_broken_callback():
    """A session does not say which call a question belongs to."""
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    fake = legacy({**asking("elicitation/create", FORM), "prompts/get": SILENCE})
    async with connect(fake, on_elicit=broken) as client:
        other = asyncio.ensure_future(client.get_prompt("p"))
        await fake.until("prompts/get")
        assert (await client.call_tool("fails")).is_error
        other.cancel()
    assert [str(error) for error in reported] == ["the callback for elicitation/create failed: ZeroDivisionError('secret path')"]


# Elicitation


@both_eras
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"name": "Anna"}, {"action": "accept", "content": {"name": "Anna"}}),
        (None, {"action": "cancel"}),
        (ElicitResult("decline", {"name": "Anna"}), {"action": "decline"}),
        (ElicitResult("cancel", {"name": "Anna"}), {"action": "cancel"}),
    ],
)
@scene
async def test_a_form_is_accepted_with_content_and_declined_without(era, given, sent):
    """EL-06, EL-07, MR-06, MR-19: a question without a mode is a form; a refusal is an answer like any other."""
    assert await answer_of(("elicitation/create", FORM), era=era, on_elicit=lambda _: given) == sent


@both_eras
@scene
async def test_the_defaults_of_a_form_are_filled_in(era):
    """EL-05, EL-04: for every kind of field; the user's values replace them."""
    fields = {
        "name": {"type": "string", "default": "Anna"},
        "age": {"type": "integer", "default": 7},
        "size": {"type": "number", "default": 1.5},
        "old": {"type": "boolean", "default": False},
        "plain": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "named": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
        "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a", "b"]},
        "shown": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "default": []},
        "open": {"type": "string"},
    }
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": fields}}
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    answer = await answer_of(("elicitation/create", form), era=era, on_elicit=lambda question: question.accept())
    assert answer == {"action": "accept", "content": defaults}
    answer = await answer_of(("elicitation/create", form), era=era, on_elicit=lambda question: {"age": 8, "several": ["b"]})
    assert answer["content"] == {**defaults, "age": 8, "several": ["b"]}


@both_eras
@scene
async def test_a_url_is_shown_whole_and_nothing_visits_it(era):
    """EL-14, EL-11, EL-07: with the name of the server; accepting means consent, and has no content."""
    visits, shown = [], []
    listener = await asyncio.start_server(lambda reader, writer: visits.append(writer), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/path?state=a%20b#end"

    def show(question):
        shown.append((question.mode, question.url, question.message, question.server.name))
        return question.accept({"name": "Anna"})

    params = {**(URL if era == "legacy" else MODERN_URL), "url": url}
    answer = await answer_of(("elicitation/create", params), era=era, on_elicit_url=show)
    listener.close()
    await listener.wait_closed()
    assert shown == [("url", url, "Sign in", "fake")]
    assert answer == {"action": "accept"}
    assert visits == []


@scene
async def test_a_mode_that_was_not_declared_is_refused():
    """EL-09, CP-04: by an error in a session; on the stateless wire by no retry and an error for the caller (CON-04)."""
    answer = await answer_of(("elicitation/create", URL), era="legacy", on_elicit=lambda _: None)
    assert answer["code"] == -32602
    for question, callbacks in ((MODERN_URL, {"on_elicit": dict}), (FORM, {"on_elicit_url": dict}), (FORM, {})):
        fake = FakeServer({"tools/call": asks({"k": ("elicitation/create", question)})})
        async with connect(fake, **callbacks) as client:
            with pytest.raises(RemoteProtocolError, match="did not declare"):
                await client.call_tool("x")
        assert fake.methods.count("tools/call") == 1


@scene
async def test_the_completion_of_an_unknown_url_elicitation_is_ignored():
    """EL-12, JR-10."""
    fake, received = legacy(), []
    async with connect(
        fake,
        on_elicit_url=dict,
        options=ClientOptions(on_notification=lambda method, params: received.append((method, params.elicitation_id))),
    ) as client:
        fake.notify("notifications/elicitation/complete", {"elicitationId": "unknown"})
        await client.ping()
    assert received == [("notifications/elicitation/complete", "unknown")]
    assert fake.methods[-1] == "ping"


@both_eras
@pytest.mark.parametrize(
    ("content", "complaint"),
    [({}, "name"), ({"name": 5}, "name"), ({"name": "x", "age": "old"}, "age"), ({"name": "x", "kind": "c"}, "kind")],
)
@scene
async def test_content_that_does_not_fit_the_form_is_not_sent(era, content, complaint):
    """EL-16: the error names the wrong field."""
    fields = {"name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"type": "string", "enum": ["a", "b"]}}
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": fields, "required": ["name"]}}
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    if era == "legacy":
        answer = await answer_of(("elicitation/create", form), era=era, on_elicit=lambda _: content)
        assert answer["code"] == -32603
        assert complaint in reported[0]
    else:
        fake = FakeServer({"tools/call": asks({"k": ("elicitation/create", form)})})
        async with connect(fake, on_elicit=lambda _: content) as client:
            with pytest.raises(QuestionFailed, match=complaint):
                await client.call_tool("x")
        assert fake.methods.count("tools/call") == 1


# Rounds of the stateless wire


@pytest.mark.parametrize(
    ("method", "result", "call"),
    [
        ("tools/call", text("done"), lambda client: client.call_tool("x", {"a": 1}, meta={"com.example/a": 1})),
        ("prompts/get", {"messages": []}, lambda client: client.get_prompt("p", {"a": "1"}, meta={"com.example/a": 1})),
        ("resources/read", {"contents": []}, lambda client: client.read_resource("x://y", meta={"com.example/a": 1})),
    ],
)
@scene
async def test_a_retry_is_the_request_again_with_the_answers(method, result, call):
    """MR-05, MR-07, MR-08, MR-11, VN-01: a new id, fresh metadata, the latest state and answers and nothing of earlier rounds."""
    rounds = [
        asks({"a": ("elicitation/create", FORM), "b": ("roots/list", {})}, "one"),
        asks({"c": ("elicitation/create", FORM)}),
        asks(state=""),
    ]
    fake = FakeServer({method: [*rounds, result]})
    async with connect(fake, on_elicit=lambda _: {"name": "Anna"}, roots=["/home"]) as client:
        await call(client)
    first, *retries = fake.of(method)
    added = [{key: value for key, value in retry.items() if key not in first} for retry in retries]
    anna = {"action": "accept", "content": {"name": "Anna"}}
    assert added[0] == {
        "inputResponses": {"a": anna, "b": {"roots": [{"uri": uri_of("/home"), "name": "home"}]}},
        "requestState": "one",
    }
    assert added[1] == {"inputResponses": {"c": anna}}
    assert added[2] == {"requestState": ""}
    for retry in retries:
        assert {key: value for key, value in retry.items() if key in first and key != "_meta"} == {
            key: value for key, value in first.items() if key != "_meta"
        }
        assert {**retry["_meta"], "progressToken": 0} == {**first["_meta"], "progressToken": 0}
    assert len(set(fake.ids_of(method))) == 4


@pytest.mark.parametrize("state", ["\u0000\u00e9 =\U0001f389", "", "x" * 100_000, '{"a":1}\n'])
@scene
async def test_a_state_goes_back_as_it_came(state):
    """MR-07: byte for byte, whatever it looks like."""
    fake = FakeServer({"tools/call": [asks(state=state), text("done")]})
    async with connect(fake) as client:
        await client.call_tool("x")
    assert fake.of("tools/call")[1]["requestState"] == state


@scene
async def test_the_answers_of_one_call_never_appear_on_another():
    """MR-09, ST-02: two calls with questions and a plain one, all at once."""

    def answer(asked):
        name = asked.params["name"]
        if name == "plain" or "inputResponses" in asked.params:
            return text(name)
        return asks({name: ("elicitation/create", {**FORM, "message": name})}, f"state of {name}")

    fake = FakeServer({"tools/call": answer})
    async with connect(fake, on_elicit=lambda question: {"name": question.message}) as client:
        results = await asyncio.gather(*(client.call_tool(name) for name in ("one", "plain", "two")))
    assert [result.text for result in results] == ["one", "plain", "two"]
    for params in fake.of("tools/call"):
        name = params["name"]
        if "inputResponses" in params:
            assert params["requestState"] == f"state of {name}"
            assert params["inputResponses"] == {name: {"action": "accept", "content": {"name": name}}}
        else:
            assert "requestState" not in params
    assert "inputResponses" not in fake.of("tools/call")[1]


@scene
async def test_all_questions_are_answered_before_the_retry():
    """MR-05: at the same time, so that one slow answer does not hold up the others."""
    waiting, both = [], asyncio.Event()

    async def ask(question):
        waiting.append(question)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return {"name": "x"}

    questions = dict.fromkeys(("a", "b"), ("elicitation/create", FORM))
    fake = FakeServer({"tools/call": [asks(questions), text("done")]})
    async with connect(fake, on_elicit=ask) as client:
        await client.call_tool("x")
    assert fake.of("tools/call")[1]["inputResponses"].keys() == {"a", "b"}


@scene
async def test_a_server_that_only_wants_another_try_gets_a_few(monkeypatch):
    """MR-10: with pauses, and not endlessly."""
    monkeypatch.setattr("twopipes._client.caller._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("twopipes._client.caller._LONGEST_PAUSE", 0.002)
    fake = FakeServer({"tools/call": [*[asks(state="wait")] * 3, text("done")]})
    async with connect(fake) as client:
        assert (await client.call_tool("x")).text == "done"
    assert len(fake.of("tools/call")) == 4
    fake = FakeServer({"tools/call": asks(state="wait")})
    async with connect(fake) as client:
        with pytest.raises(RemoteProtocolError, match="asked for input 16 times"):
            await client.call_tool("x")
    assert len(fake.of("tools/call")) == 17


@scene
async def test_a_caller_may_answer_questions_itself():
    """MR-05, MR-08: request_once returns the questions."""
    fake = FakeServer({"tools/call": [asks({"k": ("elicitation/create", FORM)}, "s"), text("done")]})
    async with connect(fake, on_elicit=dict) as client:
        asked = await client.request_once("tools/call", {"name": "x"})
        assert isinstance(asked, InputRequired)
        result = await asked.answer({"k": ElicitResult("decline")})
        assert result.text == "done"
    assert fake.of("tools/call")[1]["inputResponses"] == {"k": {"action": "decline"}}
    assert fake.of("tools/call")[1]["requestState"] == "s"


@scene
async def test_a_result_that_asks_where_it_may_not_is_an_error():
    """MR-01, MR-02: of a list, or with nothing to answer."""
    fake = FakeServer({"tools/list": asks({"k": ("roots/list", {})}), "tools/call": asks()})
    async with connect(fake, roots=["/home"]) as client:
        with pytest.raises(RemoteProtocolError):
            await client.list_tools()
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("x")
    assert fake.methods == ["server/discover", "tools/list", "tools/call"]


@scene
async def test_a_capability_that_a_server_needs_is_named_by_the_error():
    """ER-10, CP-06."""
    fake = FakeServer({"tools/call": Fault(-32021, "needs more", {"requiredCapabilities": {"elicitation": {}}})})
    async with connect(fake) as client:
        with pytest.raises(McpError) as failed:
            await client.call_tool("x")
    assert failed.value.required == {"elicitation": {}}
    assert fake.methods.count("tools/call") == 1


@scene
async def test_a_question_that_is_taken_back_at_once_does_not_count_as_one_that_is_being_answered():
    """CA-04, TO-01: it came and went in one chunk; what the server owes afterwards is waited for no longer than its limit."""
    fake = legacy({"tools/call": SILENCE})
    async with connect(fake, on_elicit=dict) as client:
        asked = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": FORM}
        taken_back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}}
        fake.write(b"".join(json.dumps(line).encode() + b"\n" for line in (asked, taken_back)))
        assert (await fake.ask("ping"))["result"] == {}  # both have been read
        with pytest.raises(RequestTimedOut) as late:
            await client.call_tool("x", timeouts=Timeouts(request=0.01, total=1.0))
    assert late.value.limit == "idle"
