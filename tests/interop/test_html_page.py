"""The HTML page of a recording, used as people use it: in Chromium, with a mouse and with the keyboard alone."""

import json
from contextlib import contextmanager

import pytest

from interop.harness import browser
from twopipes import trace
from twopipes._tools.view.html import write_page
from twopipes._trace.format import Event, Header, Line, encode
from unit.trace.recordings import DISCOVERY, call, done, entries, handshake, meta, modern, note

pytestmark = pytest.mark.interop

# Milliseconds; a safety net, not an assertion.
NET = 30_000
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 800, "height": 700}

CONVERSATION = [
    *DISCOVERY,
    ("<", "Loading model..."),
    ("!", "INFO: up"),
    (">", modern(1, "tools/list")),
    ("<", done(1, tools=[{"name": "echo", "inputSchema": {"type": "object"}}], ttlMs=0, cacheScope="public")),
    (">", modern(2, "tools/call", name="slow", _meta=meta(progressToken="p"))),
    (">", modern("2", "tools/call", name="broken")),
    ("<", note("notifications/progress", progressToken="p", progress=1, total=2, message="half")),
    ("<", {"id": "2", "error": {"code": -32603, "message": "it broke"}}),
    ("<", done(2, content=[{"type": "text", "text": "slow is done"}])),
    (">", modern(3, "tools/call", name="ask")),
    ("<", {"id": 3, "result": {"resultType": "input_required", "requestState": "s", "inputRequests": {"q": {}}}}),
    (">", modern(4, "tools/call", name="ask", requestState="s", inputResponses={"q": {"action": "accept"}})),
    ("<", done(4, content=[{"type": "text", "text": "Ada"}])),
    (">", modern(5, "tools/call", name="hang")),
    Event(at=3.0, name="exit", signal="SIGKILL"),
]


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def visit(chromium, tmp_path):
    """Open the page of a recording, and check at the end that it logged no errors and loaded nothing."""

    @contextmanager
    def visiting(written, *, viewport=WIDE, scheme="light", header=None, name="a.trace.jsonl"):
        recording = tmp_path / name
        recording.write_bytes(b"".join(map(encode, [header or Header(version=1, argv=("python", "server.py")), *written])))
        write_page(trace.read(recording), tmp_path / "page.html")
        context = chromium.new_context(viewport=viewport, color_scheme=scheme, permissions=["clipboard-read", "clipboard-write"])
        context.set_default_timeout(NET)
        complaints, loaded = [], []
        context.on("console", lambda message: complaints.append(message.text))
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on("request", lambda request: loaded.append(request.url))
        page = context.new_page()
        page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        address = (tmp_path / "page.html").as_uri()
        page.goto(address)
        yield page
        context.close()
        assert complaints == []
        assert loaded == [address]

    return visiting


def labels(page):
    """Return the labels of the rows in the document, as a screen reader reads them, in order."""
    found = page.locator("[role=option]").evaluate_all(
        "rows => rows.map(row => [Number(row.getAttribute('aria-posinset')), row.getAttribute('aria-label')])"
    )
    return [label for _, label in sorted(found)]


def current(page):
    """Return the active row of the list."""
    name = page.locator("#list").get_attribute("aria-activedescendant")
    return "" if name is None else page.locator(f"#{name}").get_attribute("aria-label")


def count(page):
    return page.locator("#count").inner_text()


# Content


def test_the_page_shows_the_conversation_in_order(visit):
    with visit(entries(*CONVERSATION)) as page:
        shown = labels(page)
        assert len(shown) == len(CONVERSATION) + 1
        assert shown[0].startswith("event, the server was started, pid 4242")
        assert shown[1].startswith('request, server/discover, id "d", client to server, at 0.100 seconds, answered after 100 ms')
        assert "finding FR-04" in shown[3]
        assert shown[4].startswith("stderr, INFO: up")
        (hanging,) = [each for each in shown if "no response" in each]
        assert hanging.startswith("request, tools/call, hang")
        assert page.locator(".row .round").all_inner_texts() == ["round 1 of 2", "round 2 of 2"]
        assert page.locator(".bar.hanging").count() == 1
        assert page.locator(".bar.failed").count() == 1
        assert page.locator(".bar.rounds").count() == 1
        assert page.locator("#facts li").first.inner_text() == "2026-07-28, stateless"


def test_questions_of_a_server_have_bars_on_the_client_side(visit):
    asks = ("<", call("s1", "elicitation/create", message="Who?", requestedSchema={}))
    answers = (">", {"id": "s1", "result": {"action": "decline"}})
    with visit(entries(*handshake(client={"elicitation": {}}), asks, answers)) as page:
        assert page.locator(".bar.client").count() == 1
        assert labels(page)[-1].startswith('response, elicitation/create, decline, id "s1", client to server')


# Filters


def test_kinds_methods_ids_and_text_filter_the_rows(visit):
    with visit(entries(*CONVERSATION)) as page:
        everything = count(page)
        errors = page.locator("#kinds button", has_text="errors")
        errors.click()
        assert errors.get_attribute("aria-pressed") == "true"
        assert [label.split(",")[:3] for label in labels(page)] == [["error", " tools/call", " -32603 it broke"]]
        page.locator("#kinds button", has_text="stderr").click()
        assert len(labels(page)) == 2
        assert count(page) == f"2 of {everything}"
        page.locator("#clear").click()
        assert count(page) == everything

        method = page.locator("#method-filter")
        method.select_option(label="tools/list (2)")
        assert [label.split(",")[0] for label in labels(page)] == ["request", "response"]
        method.select_option(index=0)

        page.locator("#id-filter").fill("2")
        shown = labels(page)
        assert len(shown) == 5, "the number, and the string without its quotes; progress belongs to its request"
        page.locator("#id-filter").fill('"2"')
        assert all('id "2"' in label for label in labels(page))
        page.locator("#id-filter").fill("")

        page.locator("#text-filter").fill("SLOW IS")
        assert len(labels(page)) == 1
        page.locator("#text-filter").fill("nothing has this")
        assert labels(page) == []
        assert page.locator("#nothing").is_visible()


def test_all_messages_of_a_call_can_be_shown_together(visit):
    with visit(entries(*CONVERSATION)) as page:
        page.get_by_label("By call").check()
        shown = labels(page)
        first = next(place for place, label in enumerate(shown) if label.startswith("request, tools/call, slow"))
        assert [label.split(",")[0] for label in shown[first : first + 3]] == ["request", "notification", "response"]


# Jumping, opening, copying


def test_a_request_links_to_its_response_and_back(visit):
    with visit(entries(*CONVERSATION)) as page:
        page.locator(".row.request", has_text="slow").click()
        assert page.locator("#message h2").inner_text() == "tools/call"
        assert "Messages of this call" in page.locator("#message").inner_text()
        page.get_by_role("button", name="Go to the response").click()
        assert current(page).startswith("response, tools/call, slow is done")
        page.get_by_role("button", name="Go to the request").click()
        assert current(page).startswith("request, tools/call, slow")


def test_a_jump_to_a_row_that_a_filter_hides_clears_the_filter(visit):
    with visit(entries(*CONVERSATION)) as page:
        page.locator("#kinds button", has_text="requests").click()
        page.locator(".row.request", has_text="slow").click()
        page.keyboard.press("a")
        assert current(page).startswith("response, tools/call, slow is done")
        assert "of" not in count(page)


def test_a_finding_links_to_its_row(visit):
    with visit(entries(*CONVERSATION)) as page:
        page.locator("#show-findings").click()
        page.locator("#findings .jump", has_text="FR-04").click()
        assert current(page).startswith("noise, Loading model...")
        assert "FR-04" in page.locator("#message .note").inner_text()


def test_a_message_is_copied_as_indented_json(visit):
    params = '{"big":12345678901234567890,"one":1.0,"twice":1,"twice":2,"e":[],"t":"a\\"\u202eb"}'
    sent = '{"jsonrpc":"2.0","id":7,"method":"x","params":' + params + "}"
    with visit([Line(0.1, ">", sent.encode())]) as page:
        page.locator(".row.request").click()
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("button", name="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert json.loads(copied, object_pairs_hook=list) == json.loads(sent, object_pairs_hook=list)
        assert '"big": 12345678901234567890,\n' in copied, "numbers as they were sent"
        assert "\\u202e" in copied
        page.get_by_role("button", name="As sent").click()
        assert page.locator("#message pre").inner_text() == sent.replace("\u202e", "\\u202e")


def test_a_long_text_is_cut_and_can_be_expanded(visit):
    text = "start " + "x" * 300_000 + " end"
    with visit(entries(*handshake(), (">", call(1, "tools/call", name="echo", arguments={"text": text})))) as page:
        row = page.locator(".row.request", has_text="echo")
        assert len(row.inner_text()) < 1000
        row.click()
        shown = page.locator("#message pre")
        assert len(shown.inner_text()) < 5000
        shown.get_by_role("button", name="more").click()
        assert text in shown.inner_text()


# Keyboard


def test_everything_can_be_reached_with_the_keyboard(visit):
    with visit(entries(*CONVERSATION)) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "list"
        page.keyboard.press("j")
        assert current(page).startswith("event, the server was started")
        page.keyboard.press("ArrowDown")
        assert current(page).startswith("request, server/discover")
        outline = page.locator(".row[aria-selected=true]").evaluate("row => getComputedStyle(row).boxShadow")
        assert outline != "none", "the focus can be seen"
        page.keyboard.press("a")
        assert current(page).startswith("response, server/discover")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        assert page.locator("#message h2").inner_text() == "server/discover"
        page.keyboard.press("End")
        assert current(page).startswith("event, the server exited (signal SIGKILL)")
        page.keyboard.press("Home")
        assert current(page).startswith("event, the server was started")
        page.keyboard.press("n")
        assert "finding" in current(page)
        page.keyboard.press("/")
        page.keyboard.type("half")
        assert len(labels(page)) == 1
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "list"
        page.keyboard.press("Escape")
        assert not page.locator("#message").is_visible()
        page.keyboard.press("?")
        assert page.get_by_role("dialog").is_visible()
        page.keyboard.press("Escape")
        assert not page.get_by_role("dialog").is_visible()


def test_the_arrow_keys_switch_tabs(visit):
    with visit(entries(*CONVERSATION)) as page:
        page.get_by_role("tab", name="Recording").focus()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", name="Findings").get_attribute("aria-selected") == "true"
        assert page.get_by_role("tabpanel", name="Findings").is_visible()


def test_every_control_has_a_name(visit):
    with visit(entries(*CONVERSATION)) as page:
        page.locator(".row.request").first.click()
        nameless = page.evaluate(
            """[...document.querySelectorAll("button, input, select, [role=option], [role=tabpanel], [role=listbox], canvas, pre")]
               .filter(each => !(each.textContent.trim() || each.ariaLabel || each.labels?.[0]?.textContent.trim()))
               .map(each => each.outerHTML)"""
        )
        assert nameless == []


# Light and dark, wide and narrow


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_colour_scheme_follows_the_system_until_the_user_chooses(visit):
    with visit(entries(*CONVERSATION), scheme="dark") as page:
        dark = background(page)
        page.emulate_media(color_scheme="light")
        light = background(page)
        assert light != dark
        page.locator("#theme").click()
        assert background(page) == dark
        page.keyboard.press("t")
        assert background(page) == light


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_nothing_overflows_the_window(visit, viewport):
    with visit(entries(*CONVERSATION), viewport=viewport) as page:
        page.locator(".row.request", has_text="slow").click()
        page.locator("#message").wait_for()
        size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert size == [viewport["width"], viewport["height"]]
        for name in ("#theme", "#count", "#list", "#pane"):
            box = page.locator(name).bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= viewport["width"], name
            assert 0 <= box["y"] <= box["y"] + box["height"] <= viewport["height"], name


# Untrusted content

HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1><svg onload=window.hacked=1><!--"
    "<a href=javascript:window.hacked=1>\u202e\u2066\u0000\u001b[31m\u2028\ufeff\u200b'\"`${window.hacked=1}\N{SPARKLES}"
)


def test_a_hostile_recording_runs_no_script_and_hides_nothing(visit):
    written = [
        (">", modern(HOSTILE, HOSTILE, **{HOSTILE: HOSTILE})),
        ("<", {"id": HOSTILE, "error": {"code": 1, "message": HOSTILE, "data": HOSTILE}}),
        ("<", note(HOSTILE, x="\\ud800")),
        ("<", HOSTILE),
        ("!", HOSTILE),
        ("<", b'{"half a pair":"\\ud83d"}'),
        ("<", b"\xff\xfe<b>\xe2\x80\xae\xc3"),
        Event(at=1.0, name="note", reason=HOSTILE),
    ]
    header = Header(version=1, argv=(HOSTILE,), cwd=HOSTILE, environment=(HOSTILE,), platform=HOSTILE, started=HOSTILE)
    with visit(entries(*written), header=header, name="<img src=x>\u202e.jsonl") as page:
        for _ in range(len(written) + 1):
            page.locator("#list").focus()
            page.keyboard.press("j")
            page.keyboard.press("Enter")
            assert page.locator("main :is(img, a, svg, script, style, iframe), .row b:not(.method)").count() == 0
            said = page.evaluate("document.body.innerText + document.title")
            assert not set("\u202e\u2066\x00\x1b\u2028\u200b\ufeff") & set(said)
        page.locator("#show-findings").click()
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert page.evaluate("document.querySelectorAll('script').length") == 2
        assert page.locator("#name").inner_text() == "<img src=x>\\u202e.jsonl"


def test_bytes_that_are_not_text_are_shown_as_escapes(visit):
    with visit([Line(0.1, "!", b"caf\xe9 \xe2\x82\xac \xff")]) as page:
        page.locator(".row.stderr").click()
        assert page.locator("#message pre").inner_text() == "caf\\xe9 € \\xff"
        page.get_by_role("button", name="Copy base64").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == "Y2Fm6SDigqwg/w=="


# Large and broken recordings


def test_only_visible_rows_of_ten_thousand_messages_are_in_the_document(visit):
    written = []
    for number in range(5000):
        written.append(Line(number / 100, ">", json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode()))
        written.append(Line(number / 100 + 0.005, "<", json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()))
    with visit(written) as page:
        assert count(page) == "10,000 entries"
        for key in ("End", "PageUp", "Home"):
            page.locator("#list").focus()
            page.keyboard.press(key)
            assert 0 < len(labels(page)) < 80
            assert page.locator(".bar").count() < 80
        page.locator("#id-filter").fill("4321")
        assert len(labels(page)) == 2
        page.locator("#id-filter").fill("")
        page.keyboard.press("Escape")
        # The mouse at the end of the timeline.
        box = page.locator("#overview").bounding_box()
        page.mouse.click(box["x"] + box["width"] - 18, box["y"] + 20)
        assert ", at 49.99" in current(page)
        assert len(labels(page)) < 80


def test_a_truncated_recording_is_shown_up_to_its_end(visit):
    torn = [*entries(*CONVERSATION[:6]), Line(4.0, "<", b'{"jsonrpc":"2.0","id":9,"res', is_whole=False)]
    with visit(torn) as page:
        page.locator(".row").last.click()
        assert "line without a newline" in page.locator("#message").inner_text()


def test_an_empty_recording_has_a_page(visit):
    with visit([]) as page:
        assert count(page) == "0 entries"
        for key in ("j", "k", "End", "Enter", "n", "a", "t"):
            page.locator("#list").focus()
            page.keyboard.press(key)
