"""The client without await, with servers in this process, in both eras."""

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

import twopipes
from twopipes import CallResult, Change, Context, McpError, RequestTimedOut, Server, ShutdownPlan, Timeouts, blocking
from twopipes._blocking import callbacks
from twopipes._blocking.callbacks import Progress
from twopipes._blocking.loop import ClientLease, LoopThread
from twopipes._channels.memory import memory_pair
from twopipes._client.caller import InputRequired as AsyncInputRequired
from twopipes._protocol.types import ElicitResult
from twopipes.blocking import Client, InputRequired, Subscription, connect
from twopipes.errors import ClientClosed, LocalProtocolError, OpeningFailed, QuestionFailed, UserRefused
from twopipes.types import ClientOptions

# Seconds. The limit for a hang; nothing takes nearly as long.
NET = 30
ERAS = ("legacy", "modern")
ROOT = Path(__file__).parents[2]


FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Bench:
    """A server for the tests, and a record of what happened in it."""

    def __init__(self):
        self.server = server = Server("bench", version="1.0", instructions="Sit down.")
        self.waiting = threading.Event()
        self.cancelled = threading.Event()

        @server.tool
        async def add(a: int, b: int) -> str:
            return str(a + b)

        @server.tool
        async def broken() -> str:
            raise RuntimeError("no")

        @server.tool
        async def forever() -> str:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()

        @server.tool
        async def steps(ctx: Context, count: int) -> str:
            for number in range(count):
                await ctx.progress(number + 1, count)
            return "done"

        @server.tool
        async def chatty(ctx: Context, count: int) -> str:
            for number in range(count):
                await ctx.log("error", number)
            return "said"

        @server.tool
        async def greet(ctx: Context) -> str:
            answer = await ctx.elicit("Who is there?", FORM)
            return f"{answer.action} {(answer.content or {}).get('name')}"

        @server.tool
        async def think(ctx: Context) -> str:
            return (await ctx.sample("Say hi", max_tokens=10)).content.text

        @server.tool
        async def places(ctx: Context) -> str:
            return " ".join(root.uri for root in await ctx.list_roots())

        @server.resource("bench://wood/{kind}")
        async def wood(kind: str) -> str:
            return f"{kind} wood"

        @server.resource("bench://colour")
        async def colour() -> str:
            return "green"

        @server.prompt
        async def paint(colour: str) -> str:
            return f"Paint it {colour}."

        @server.completion("paint", "colour")
        async def colours(value: str) -> list[str]:
            return [each for each in ("green", "grey", "red") if each.startswith(value)]

    def grow(self, client):
        """Change the list of tools, in the loop, as a server does."""
        client._loop_thread.post(self.server.add_tool, _grown)


def _grown() -> str:
    """A tool that is added later."""
    return "grown"


@contextmanager
def nothing_left():
    before = set(threading.enumerate())
    yield
    # Threads of questions and of plain tools end a moment after their results arrive.
    for thread in set(threading.enumerate()) - before:
        thread.join(NET)
        assert not thread.is_alive(), thread
    assert LoopThread.current is None
    assert not LoopThread.running


@pytest.fixture(autouse=True)
def _nothing_is_left():
    with nothing_left():
        yield


@pytest.fixture(autouse=True)
def _however_busy_the_machine_is(monkeypatch):
    monkeypatch.setattr(callbacks, "CALLBACK_WAIT", NET)


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture(params=ERAS)
def era(request):
    return request.param


@pytest.fixture
def client(bench, era):
    with connect(bench.server, era=era) as client:
        yield client


# The two clients are the same


def public(kind):
    return {name for each in kind.__mro__[:-1] for name in vars(each) if not name.startswith("_")}


def parameters(function):
    """Return names, kinds, defaults and types, as they are written."""
    return [(each.name, each.kind, each.default, each.annotation) for each in inspect.signature(function).parameters.values()]


def test_every_method_and_property_of_the_async_client_is_there():
    assert public(Client) - {"timeouts"} == public(twopipes.Client)
    assert "timeouts" in public(Client)  # an attribute there
    for name in public(twopipes.Client):
        here, there = getattr(Client, name), getattr(twopipes.Client, name)
        assert isinstance(here, property) == isinstance(there, property), name
        if isinstance(there, property):
            assert inspect.signature(here.fget) == inspect.signature(there.fget), name
        else:
            assert parameters(here) == parameters(there), name
            assert inspect.signature(here).return_annotation == inspect.signature(there).return_annotation, name
            assert not inspect.iscoroutinefunction(here), name


def test_connect_has_every_parameter_of_the_async_one():
    assert parameters(connect) == parameters(twopipes.connect)
    assert inspect.signature(connect).return_annotation == "Client"


def test_every_argument_is_explained():
    for function in (connect, Client.call_tool, Client.complete, Client.subscribe):
        for name in inspect.signature(function).parameters:
            if name != "self":
                assert f"{name}: " in function.__doc__, (function, name)


def test_subscriptions_and_questions_have_what_the_async_ones_have():
    for_the_client = {"attach", "detach", "changed", "fail", "acknowledged", "notified", "ended", "pause", "aclose"}
    assert public(twopipes.Subscription) - for_the_client | {"wanted", "honoured", "dropped", "is_over"} == public(Subscription) - {
        "get"
    }
    assert parameters(InputRequired.answer) == parameters(AsyncInputRequired.answer)
    assert public(InputRequired) == public(AsyncInputRequired)


def test_the_names_of_the_module_are_these():
    assert sorted(blocking.__all__) == ["Client", "GroupServer", "InputRequired", "ServerGroup", "Subscription", "connect"]
    assert not set(blocking.__all__) & {"blocking"}
    assert "blocking" not in twopipes.__all__


def test_importing_it_starts_nothing_and_imports_no_server():
    program = (
        "import sys, threading, twopipes.blocking\n"
        "assert threading.active_count() == 1\n"
        "heavy = ['twopipes._server', 'twopipes._channels.sockets', 'twopipes._channels.memory', 'concurrent.futures.thread']\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True, timeout=NET)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_a_users_script_is_typed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from twopipes import Change\n"
        "from twopipes.types import Elicitation\n"
        "from twopipes.blocking import connect\n"
        "def ask(question: Elicitation) -> dict[str, str]:\n"
        "    return {'name': input(question.message)}\n"
        "with connect('python', 'server.py', on_elicit=ask, on_log=print) as client:\n"
        "    text: str = client.call_tool('add', {'a': 1}, on_progress=print).text\n"
        "    names: list[str] = [tool.name for tool in client.list_tools()]\n"
        "    with client.subscribe(tools=True) as changes:\n"
        "        change: Change | None = changes.get(timeout=1.0)\n"
        "        kinds: list[str] = [each.kind for each in changes]\n"
        "    wrong: int = client.era\n"
    )
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", str(script)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=4 * NET, cwd=ROOT)
    (complaint,) = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert "script.py:12" in complaint


# Calls


def test_the_server_is_known(client, era):
    assert client.era == era
    assert client.revision in {"2025-11-25", "2026-07-28"}
    assert client.server_info.name == "bench"
    assert client.instructions == "Sit down."
    assert client.capabilities.allows("tools")
    assert (client.pid, list(client.stderr), list(client.stray), client.stray_count, client.restarts) == (None, [], [], 0, 0)
    assert client.timeouts == Timeouts()
    assert client.closed is None
    assert era in repr(client)


def test_every_kind_of_call_waits_for_its_result(client):
    result = client.call_tool("add", {"a": 1, "b": 2})
    assert isinstance(result, CallResult)
    assert result.text == "3"
    assert "greet" in {tool.name for tool in client.list_tools()}
    assert [each.uri for each in client.list_resources()] == ["bench://colour"]
    assert [each.uri_template for each in client.list_resource_templates()] == ["bench://wood/{kind}"]
    assert client.read_resource("bench://wood/oak").text == "oak wood"
    assert [each.name for each in client.list_prompts()] == ["paint"]
    assert client.get_prompt("paint", {"colour": "red"}).messages[0].content.text == "Paint it red."
    assert client.complete("colour", "gr", prompt="paint").values == ["green", "grey"]
    assert client.ping() is None
    assert client.request("tools/call", {"name": "add", "arguments": {"a": 2, "b": 2}}).text == "4"
    assert client.request_once("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}}).text == "5"


def test_errors_are_the_same_and_their_tracebacks_show_the_caller(client):
    with pytest.raises(McpError, match="nope") as caught:
        client.call_tool("nope")
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[0] == "test_errors_are_the_same_and_their_tracebacks_show_the_caller"
    assert len(frames) <= 5
    assert caught.value.__context__ is None
    assert client.call_tool("broken").is_error
    with pytest.raises(LocalProtocolError):
        client.complete("colour", "gr")
    with pytest.raises(LocalProtocolError, match="resources="):
        client.subscribe(resources="bench://colour")


def test_a_call_times_out_at_its_deadline(client, bench):
    with pytest.raises(RequestTimedOut):
        client.call_tool("forever", timeouts=Timeouts(request=0.05))
    assert bench.cancelled.wait(NET)  # the request was cancelled at the server
    assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"


def test_a_failed_negotiation_is_an_error_and_leaves_nothing():
    with nothing_left(), pytest.raises(OpeningFailed):
        connect(Server("old", eras="legacy"), era="modern")


@pytest.mark.parametrize("wrong", [{"era": "stone"}, {"revision": "1999-01-01"}, {"cwd": "/"}])
def test_invalid_arguments_are_refused_and_leave_nothing(bench, wrong):
    with nothing_left(), pytest.raises(LocalProtocolError):
        connect(bench.server, **wrong)


def test_a_channel_belongs_to_another_loop():
    here, _there = memory_pair()
    with nothing_left(), pytest.raises(LocalProtocolError, match="belongs to an event loop"):
        connect(here)


# The end


def test_without_a_with_block_close_may_be_called_any_number_of_times(bench, era):
    client = connect(bench.server, era=era)
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    client.close()
    assert client.closed is not None
    client.close()
    assert client.era == era  # it is still known after the end
    for call in (client.list_tools, client.ping, lambda: client.call_tool("add"), lambda: client.subscribe(tools=True).get()):
        with pytest.raises(ClientClosed):
            call()
    assert "closed" in repr(client)


def test_all_clients_share_one_thread_and_the_last_one_ends_it(bench):
    before = threading.active_count()
    clients = [connect(bench.server) for _ in range(20)]
    assert threading.active_count() == before + 1
    for client in clients[:-1]:
        client.close()
    assert clients[-1].call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert threading.active_count() == before + 1
    clients[-1].close()
    assert threading.active_count() == before


def test_closing_ends_the_calls_of_other_threads(client, bench):
    caught = []

    def wait():
        try:
            client.call_tool("forever")
        except ClientClosed as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert bench.waiting.wait(NET)
    client.close()
    thread.join(NET)
    assert len(caught) == 1


def test_clients_come_and_go_in_many_threads_at_once(bench):
    wrong = []

    def work():
        try:
            for number in range(10):
                with connect(bench.server) as client:
                    assert client.call_tool("add", {"a": number, "b": 1}).text == str(number + 1)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NET)
    assert wrong == []


def test_many_threads_use_one_client(client):
    found = {}

    def work(number):
        found[number] = [client.call_tool("add", {"a": number, "b": each}).text for each in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NET)
    assert found == {number: [str(number + each) for each in range(20)] for number in range(8)}


@pytest.mark.slow
def test_a_collected_client_is_closed_with_a_warning(bench):
    with nothing_left(), warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        client = connect(bench.server)
        thread = client._loop_thread._thread
        del client
        gc.collect()
        thread.join(NET)
    assert [each.category for each in complaints] == [ResourceWarning]
    assert "was not closed" in str(complaints[0].message)


@pytest.mark.slow
def test_a_subscription_holds_its_client(bench):
    changes = connect(bench.server).subscribe(tools=True)
    gc.collect()
    assert changes.ready().tools_list_changed
    changes._client.close()


def test_it_works_inside_a_running_loop(bench):
    async def notebook():
        with connect(bench.server) as client:
            return client.call_tool("add", {"a": 1, "b": 2}).text

    assert asyncio.run(notebook()) == "3"


def test_an_interrupted_call_is_cancelled_and_the_client_stays_usable(client, bench):
    """Raise an exception in the middle of a wait, as Ctrl-C does."""

    def interrupt(_):
        raise KeyboardInterrupt

    async def stuck(ctx: Context) -> str:
        await ctx.progress(1)
        await asyncio.Event().wait()

    client._loop_thread.run(lambda: _soon(bench.server.add_tool, stuck))
    with pytest.raises(KeyboardInterrupt):
        client.call_tool("stuck", on_progress=interrupt)
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert client._loop_thread._jobs == set()


async def _soon(function, *arguments):
    return function(*arguments)


# Callbacks


def test_progress_is_called_in_the_thread_that_waits_and_before_the_result(client):
    seen = []
    result = client.call_tool("steps", {"count": 5}, on_progress=lambda it: seen.append((it.progress, threading.get_ident())))
    assert result.text == "done"
    assert seen[0][0] == 1
    assert seen == sorted(seen)
    assert {thread for _, thread in seen} == {threading.get_ident()}


def test_a_progress_callback_may_call_the_client(client):
    seen = []
    client.call_tool("steps", {"count": 1}, on_progress=lambda it: seen.append(client.call_tool("add", {"a": 1, "b": 2}).text))
    assert seen == ["3"]


def test_a_progress_callback_may_be_async(client):
    seen = []

    async def note(report):
        await asyncio.sleep(0)
        seen.append(report.progress)

    client.call_tool("steps", {"count": 1}, on_progress=note)
    assert seen == [1]


def test_a_failing_callback_is_reported_and_has_no_other_effect(client, caplog):
    def broken(_):
        raise RuntimeError("out of ink")

    assert client.call_tool("steps", {"count": 1}, on_progress=broken).text == "done"
    assert "out of ink" in caplog.text


def test_log_messages_arrive_in_order_in_one_thread_and_before_the_result(bench, era):
    seen = []
    with connect(bench.server, era=era, on_log=lambda message: seen.append((message.data, threading.get_ident()))) as client:
        client.set_log_level("debug")
        for _ in range(3):
            client.call_tool("chatty", {"count": 50})
        assert [data for data, _ in seen] == [*range(50)] * 3
    (thread,) = {thread for _, thread in seen}
    assert thread not in {threading.get_ident(), client._loop_thread._thread.ident}


def test_a_log_callback_may_call_the_client_and_even_close_it(bench, era):
    seen = []
    closed = threading.Event()

    def on_log(message):
        if message.data == 0:
            seen.append(client.call_tool("add", {"a": 1, "b": 2}).text)
        else:
            client.close()
            closed.set()

    with connect(bench.server, era=era, on_log=on_log) as client:
        client.set_log_level("debug")
        client.call_tool("chatty", {"count": 1})
        client.call_tool("chatty", {"count": 2})
        assert closed.wait(NET)
    assert seen == ["3", "3"]


def test_a_log_callback_that_waits_for_the_caller_does_not_block_the_call(bench, era, monkeypatch):
    monkeypatch.setattr(callbacks, "CALLBACK_WAIT", 0.05)
    lock = threading.Lock()
    logged = threading.Event()

    def on_log(_):
        with lock:
            logged.set()

    with connect(bench.server, era=era, on_log=on_log) as client:
        client.set_log_level("debug")
        with lock:
            assert client.call_tool("chatty", {"count": 1}).text == "said"
        assert logged.wait(NET)


def test_an_async_log_callback_runs_in_the_loop(bench, era):
    seen = []

    async def on_log(message):
        await asyncio.sleep(0)
        seen.append(message.data)

    with connect(bench.server, era=era, on_log=on_log) as client:
        client.set_log_level("debug")
        client.call_tool("chatty", {"count": 3})
        assert seen == [0, 1, 2]


def test_an_answer_may_take_its_time_while_the_client_goes_on(bench, era):
    """A plain on_elicit may wait for a person without delaying anything else."""
    asked, typed = threading.Event(), threading.Event()

    def on_elicit(question):
        asked.set()
        assert typed.wait(NET)
        return {"name": question.message}

    with connect(bench.server, era=era, on_elicit=on_elicit) as client:
        results = []
        thread = threading.Thread(target=lambda: results.append(client.call_tool("greet").text))
        thread.start()
        assert asked.wait(NET)
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        typed.set()
        thread.join(NET)
    assert results == ["accept Who is there?"]


def test_an_answer_may_come_from_the_client_itself(bench, era):
    with connect(
        bench.server,
        era=era,
        on_elicit=lambda _: {"name": client.call_tool("add", {"a": 1, "b": 2}).text},
        on_sample=lambda _: client.call_tool("greet").text,
        roots=lambda: ["file:///" + client.call_tool("add", {"a": 2, "b": 2}).text],
    ) as client:
        assert client.call_tool("greet").text == "accept 3"
        assert client.call_tool("think").text == "accept 3"
        assert client.call_tool("places").text == "file:///4"
        client.set_roots(lambda: ["file:///new"])
        assert client.call_tool("places").text == "file:///new"


def test_answers_may_be_async(bench, era):
    async def on_elicit(question):
        await asyncio.sleep(0)
        return {"name": "Anna"}

    with connect(bench.server, era=era, on_elicit=on_elicit) as client:
        assert client.call_tool("greet").text == "accept Anna"


def test_an_async_callback_that_calls_the_client_gets_an_error_instead_of_a_deadlock(bench):
    caught = []

    async def on_elicit(question):
        for call in (client.ping, client.close, lambda: connect(bench.server)):
            with pytest.raises(LocalProtocolError, match="would deadlock") as error:
                call()
            caught.append(error)
        return question.decline()

    with connect(bench.server, era="modern", on_elicit=on_elicit) as client:
        assert client.call_tool("greet").text == "decline None"
    assert len(caught) == 3


@pytest.mark.parametrize("breaks", [RuntimeError("no pen"), StopIteration("no pen"), SystemExit("no pen")])
def test_the_error_of_a_question_callback_is_the_cause(bench, era, breaks):
    def on_elicit(question):
        raise breaks

    with connect(bench.server, era=era, on_elicit=on_elicit) as client, pytest.raises(QuestionFailed, match="no pen"):
        client.call_tool("greet")


def test_a_refusal_is_passed_on(bench):
    def on_sample(question):
        raise UserRefused("not today")

    with connect(bench.server, era="modern", on_sample=on_sample) as client, pytest.raises(UserRefused):
        client.call_tool("think")


# Questions that the caller answers


def test_questions_can_be_answered_by_hand(bench):
    with connect(bench.server, era="modern", on_elicit=lambda _: None) as client:
        asking = client.request_once("tools/call", {"name": "greet", "arguments": {}})
        assert isinstance(asking, InputRequired)
        (key,) = asking.questions
        assert key in repr(asking)
        with pytest.raises(LocalProtocolError):
            asking.answer({})
        assert asking.answer({key: ElicitResult("accept", {"name": "Anna"})}).text == "accept Anna"


def test_progress_goes_on_after_the_answer(bench):
    seen = []

    async def two_steps(ctx: Context) -> str:
        await ctx.elicit("Go on?", FORM)
        await ctx.progress(2)
        return "done"

    bench.server.add_tool(two_steps)
    with connect(bench.server, era="modern", on_elicit=lambda _: None) as client:
        asking = client.request_once(
            "tools/call", {"name": "two_steps", "arguments": {}}, on_progress=lambda report: seen.append(report.progress)
        )
        (key,) = asking.questions
        assert asking.answer({key: ElicitResult("decline")}).text == "done"
    assert seen == [2]


# Changes


def test_changes_are_a_plain_iterator(client, bench):
    with client.subscribe(tools=True) as changes:
        assert changes.wanted.tools_list_changed
        assert changes.ready().tools_list_changed
        assert changes.honoured.tools_list_changed
        bench.grow(client)
        for change in changes:
            assert change == Change("tools")
            changes.close()
        assert changes.is_over
    assert list(changes) == []


def test_waiting_for_a_change_can_time_out(client, bench):
    changes = client.subscribe(tools=True)
    changes.ready()
    with pytest.raises(TimeoutError, match="nothing has changed within"):
        changes.get(timeout=0.01)
    with pytest.raises(TimeoutError):
        changes.get(timeout=0)
    bench.grow(client)
    assert changes.get(timeout=NET) == Change("tools")
    changes.close()
    changes.close()
    assert changes.get() is None
    assert changes.get(timeout=1.0) is None


@pytest.mark.parametrize("ends", ["subscription", "client"])
def test_closing_ends_an_iteration_in_another_thread(client, ends):
    changes = client.subscribe(tools=True)
    changes.ready()
    seen = []
    begun = threading.Event()

    def iterate():
        begun.set()
        seen.append(list(changes))

    thread = threading.Thread(target=iterate)
    thread.start()
    assert begun.wait(NET)
    (changes if ends == "subscription" else client).close()
    thread.join(NET)
    assert seen == [[]]
    assert changes.get() is None


def test_a_change_during_an_interruption_is_not_lost(client):
    def interrupt(_):
        raise KeyboardInterrupt

    progress = Progress(interrupt)
    changes = client.subscribe(tools=True)
    changes.ready()

    async def has_come():
        progress(None)
        return Change("tools")

    with pytest.raises(KeyboardInterrupt):
        client._loop_thread.run(has_come, progress=progress, unclaimed=changes._put_back)
    assert changes.get(timeout=NET) == Change("tools")
    changes.close()


def test_waiting_for_an_acknowledgement_times_out(bench, monkeypatch):
    with connect(bench.server, era="modern", timeouts=Timeouts(request=0.05)) as client:
        changes = client.subscribe(tools=True)
        monkeypatch.setattr(changes._inner._owner, "start", lambda _: None)
        with pytest.raises(RequestTimedOut):
            changes.ready()


def test_rare_options_reach_the_client(bench):
    """on_notification is called in the callback thread, like the other events."""
    threads = []
    options = ClientOptions(on_notification=lambda *_: threads.append(threading.get_ident()), undeclared="raise")
    with connect(bench.server, era="legacy", options=options) as client:
        client.list_tools()
        bench.grow(client)
        client.ping()
        assert client._inner._config.undeclared == "raise"
        own = {threading.get_ident(), client._loop_thread._thread.ident}
    assert threads
    assert not own & set(threads)


def test_a_wrong_keyword_is_a_type_error_as_in_the_async_client(bench):
    with (
        connect(bench.server) as client,
        pytest.raises(TypeError, match=r"call_tool\(\) got an unexpected keyword argument 'argument'"),
    ):
        client.call_tool("add", argument={})
    with pytest.raises(TypeError, match=r"connect\(\) got an unexpected keyword argument 'timeout'"):
        connect(bench.server, timeout=5)


def test_a_call_that_comes_as_the_loop_ends_does_not_start():
    lease = ClientLease(ShutdownPlan.at_once())
    loop_thread = LoopThread.acquire(lease)
    submitted, started = threading.Event(), []

    async def call():
        started.append(True)

    loop_thread.post(submitted.wait, NET)
    loop_thread.post(loop_thread.drop, lease)  # the last one, so the loop ends
    submit = loop_thread._submit

    def submit_and_continue(job):
        submit(job)
        submitted.set()

    loop_thread._submit = submit_and_continue
    with pytest.raises(ClientClosed):
        loop_thread.run(call)
    assert started == []
