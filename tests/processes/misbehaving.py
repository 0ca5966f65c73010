"""Servers that misbehave, each in one way. They are plain programs that share SPEAK, which behaves correctly.

Each of them writes its start and the messages it receives to a file, so that a test counts events and not seconds.
"""

# The module that all of them import. A program calls `serve(tool=function)`; a function gets the whole request.
SPEAK = '''
import json, os, signal, sys, time

FOLDER = os.path.dirname(os.path.abspath(__file__))
NOTES = os.open(os.path.join(FOLDER, "notes"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
SAFE, UNSAFE = {"readOnlyHint": True}, {"readOnlyHint": False}
STATE = {}


def note(**event):
    os.write(NOTES, json.dumps(event).encode() + b"\\n")


note(started=os.getpid())
LIFE = sum(b'"started"' in line for line in open(os.path.join(FOLDER, "notes"), "rb"))


def write(raw):
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


def line(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n"


def say(**message):
    write(line(**message))


def complain(words):
    os.write(2, words.encode() + b"\\n")


def receive():
    raw = sys.stdin.buffer.readline()
    if not raw:
        return None
    message = json.loads(raw)
    note(received=message)
    return message


def result_of(message, **result):
    if "_meta" in (message.get("params") or {}):
        result = {"resultType": "complete", "ttlMs": STATE.get("ttl", 0), "cacheScope": "private", **result}
    return line(id=message["id"], result=result)


def words(message, text="done"):
    return result_of(message, content=[{"type": "text", "text": text}])


def answer(message, text=None):
    write(words(message, f"life {LIFE}" if text is None else text))


def refuse(message, code=-32601):
    say(id=message["id"], error={"code": code, "message": "no"})


def wait_at_the_gate():
    """Goes on when the test has opened the gate."""
    while not os.path.exists(os.path.join(FOLDER, "gate")):
        time.sleep(0.005)


CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}}


def handle(message, era, tools, unsafe):
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        return
    if method == "server/discover" and era == "modern":
        write(result_of(message, supportedVersions=["2026-07-28"], capabilities=CAPABILITIES))
    elif method == "initialize" and era == "legacy":
        say(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES,
                                      "serverInfo": {"name": "misbehaving", "version": "1"}})
    elif method == "tools/list":
        hints = {name: UNSAFE if name in unsafe else SAFE for name in tools}
        write(result_of(message, tools=[{"name": n, "inputSchema": {"type": "object"}, "annotations": hints[n]} for n in tools]))
    elif method == "tools/call" and params["name"] in tools:
        tools[params["name"]](message)
    elif method == "subscriptions/listen":
        say(method="notifications/subscriptions/acknowledged", params={"notifications": params["notifications"],
            "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}})
    elif method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe") and era == "legacy":
        say(id=message["id"], result={})
    else:
        refuse(message)


def serve(era="modern", unsafe=(), **tools):
    tools = {"echo": lambda message: answer(message, message["params"]["arguments"]["text"]), "life": answer, **tools}
    while (message := receive()) is not None:
        handle(message, era, tools, unsafe)
'''

# Shutdown

POLITE = """
    from speak import *
    serve()
"""
# A session, as in most servers today.
LEGACY = """
    from speak import *
    serve("legacy")
"""
# Ignores EOF and SIGTERM.
STUBBORN = """
    from speak import *
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve()
    while True:
        time.sleep(3600)
"""
# Ignores EOF.
IGNORES_EOF = """
    from speak import *
    serve()
    while True:
        time.sleep(3600)
"""
# Exits on EOF, but its child holds its pipes and ignores SIGTERM.
FORKS_A_GRANDCHILD = """
    from speak import *
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note(grandchild=os.getpid())
        while True:
            time.sleep(3600)
    serve()
"""
# Reads nothing after the opening, so that its input fills up and it never sees EOF.
NEVER_READS = """
    from speak import *
    handle(receive(), "modern", {}, ())
    while True:
        time.sleep(3600)
"""

# Opening

EXITS_AT_ONCE = """
    from speak import *
    complain("nothing works here")
    sys.exit(3)
"""
NEEDS_A_VARIABLE = """
    from speak import *
    if "API_KEY" not in os.environ:
        complain("set API_KEY first")
        sys.exit(1)
    serve()
"""
# Reads everything, responds to nothing.
SILENT = """
    from speak import *
    while receive() is not None:
        pass
"""
# Does not respond to unknown methods; a session works.
SILENT_LEGACY = """
    from speak import *
    while (message := receive()) is not None:
        if message["method"] != "server/discover":
            handle(message, "legacy", {"life": answer}, ())
"""
# Exits before it reads anything.
FAILS_AT_START = """
    from speak import *
    raise RuntimeError("no database")
"""
# Exits after it has read anything.
DIES_OF_ANYTHING = """
    from speak import *
    receive()
    raise RuntimeError("no database")
"""
# Exits on any message before initialize.
DIES_ON_PROBE = """
    from speak import *
    message = receive()
    if message["method"] != "initialize":
        complain(f"unexpected {message['method']}")
        sys.exit(1)
    handle(message, "legacy", {}, ())
    serve("legacy")
"""
# Responds to the probe too late, and then to the handshake.
SLOW_START = """
    from speak import *
    wait_at_the_gate()
    handle(receive(), "modern", {}, ())
    serve("legacy")
"""
UNKNOWN_VERSION = """
    from speak import *
    while (message := receive()) is not None:
        if message["method"] == "initialize":
            info = {"name": "x", "version": "1"}
            say(id=message["id"], result={"protocolVersion": "1999-12-31", "capabilities": {}, "serverInfo": info})
        else:
            refuse(message)
"""

# Output

PRINTS_A_BANNER = """
    from speak import *
    print("Welcome to the finest server of all!", flush=True)
    serve()
"""
# Prints before, between and after its messages, also numbers and lists, which are valid JSON.
NOISY = """
    from speak import *
    def noisy(message):
        write(b"working...\\n\\n42\\n[]\\n{}\\n")
        answer(message)
        write(b"done!\\n")
    serve(noisy=noisy)
"""
FLOODS_STDERR = """
    from speak import *
    def flood(message):
        for number in range(64):
            complain("\\n".join([f"{number}: all is well"] * 4000))
        answer(message)
    serve(flood=flood)
"""
# Sends endless notifications while it works. Each piece is short enough to be written at once.
FLOODS_STDOUT = """
    from speak import *
    import threading
    handle(receive(), "modern", {}, ())
    def flood():
        while True:
            os.write(1, line(method="notifications/anything", params={}) * 50)
    threading.Thread(target=flood, daemon=True).start()
    serve()
"""
# One line that is not UTF-8, and then, if asked for, a response that is not.
INVALID_UTF8 = """
    from speak import *
    def beside(message):
        write(b'{"jsonrpc":"2.0","method":"notifications/anything","params":{"x":"\\xff\\xfe"}}\\n')
        answer(message)
    def inside(message):
        write(words(message, "XX").replace(b"XX", b"\\xff"))
    serve(beside=beside, inside=inside)
"""
# The response in two pieces. The second one follows when the next request has arrived.
WRITES_HALF_A_LINE = """
    from speak import *
    def half(message):
        raw = words(message, "whole")
        write(raw[:30])
        following = receive()
        write(raw[30:])
        answer(following, "after it")
    serve(half=half)
"""
DIES_IN_A_LINE = """
    from speak import *
    def half(message):
        write(words(message)[:30])
        os._exit(4)
    serve(half=half)
"""
# Writes a line of the requested number of bytes.
HUGE_LINE = """
    from speak import *
    serve(huge=lambda message: answer(message, "x" * message["params"]["arguments"]["size"]))
"""
# A request, which a server must not send here (FR-09).
ASKS_ON_THE_MODERN_WIRE = """
    from speak import *
    def ask(message):
        say(id=9, method="ping")
        say(id="x", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        answer(message)
    serve(ask=ask)
"""
# Reads a call and never responds.
NEVER_ANSWERS = """
    from speak import *
    serve(never=lambda message: None)
"""
# Responds to the first call when the second has arrived.
ANSWERS_LATE = """
    from speak import *
    def late(message):
        while (following := receive())["method"] != "tools/call":
            pass
        answer(message, "too late")
        answer(following, "in time")
    serve(late=late)
"""
ANSWERS_TWICE = """
    from speak import *
    def twice(message):
        answer(message, "first")
        answer(message, "second")
        refuse(message)
    serve(twice=twice)
"""
# Responses to an unknown id, to the same number as a string, to a later id.
ANSWERS_STRANGERS = """
    from speak import *
    def strangers(message):
        for stranger in (None, str(message["id"]), message["id"] + 1, 1.5, 10**30):
            write(words({**message, "id": stranger}, "for a stranger"))
        answer(message, "for you")
    serve(strangers=strangers)
"""
BACKWARDS = """
    from speak import *
    def first(message):
        answer(receive(), "second")
        answer(message, "first")
    serve(first=first)
"""
# Reports progress endlessly.
PROGRESS_FOR_EVER = """
    from speak import *
    import threading
    def report(token):
        steps = 0
        while not done.wait(0.005):
            steps += 1
            write(line(method="notifications/progress", params={"progressToken": token, "progress": steps}))
    done = threading.Event()
    def forever(message):
        threading.Thread(target=report, args=(message["params"]["_meta"]["progressToken"],), daemon=True).start()
    serve(forever=forever)
    done.set()
"""

# Unexpected exits

# Exits with a code and a line on stderr in every call: `look` is read-only, `pay` must not be done twice.
CRASHES_MID_CALL = """
    from speak import *
    def crash(message):
        complain("the disk is on fire")
        os._exit(7)
    serve(unsafe=["pay"], look=crash, pay=crash)
"""
# The same, but only in the first process.
CRASHES_ONCE = """
    from speak import *
    def crash(message):
        if LIFE == 1:
            complain("the disk is on fire")
            os._exit(7)
        answer(message)
    serve(unsafe=["pay"], look=crash, pay=crash)
"""
CRASHES_ONCE_IN_A_SESSION = CRASHES_ONCE.replace("serve(", 'serve("legacy", ')
# The new process starts only when the gate is opened.
CRASHES_AND_WAITS = CRASHES_ONCE.replace("    def crash", "    if LIFE > 1:\n        wait_at_the_gate()\n    def crash")
# The first process crashes on request; the others exit at their start.
NEVER_COMES_BACK = CRASHES_ONCE.replace(
    "    def crash", "    if LIFE > 1:\n        complain('no disk')\n        sys.exit(9)\n    def crash"
)
# Every process responds to the probe and exits right after it.
DIES_AFTER_OPENING = """
    from speak import *
    if LIFE == 1:
        serve(look=lambda message: os._exit(5))
    write(result_of(receive(), supportedVersions=["2026-07-28"], capabilities=CAPABILITIES))
    os._exit(5)
"""
# Asks a question, and the first process dies from the answer.
ASKS_AND_CRASHES_ONCE = """
    from speak import *
    def ask(message):
        given = message["params"].get("inputResponses")
        if given is None:
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            question = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}}
            asking = {"resultType": "input_required", "inputRequests": {"who": question}, "requestState": f"state {LIFE}"}
            say(id=message["id"], result=asking)
        elif LIFE == 1:
            os._exit(7)
        else:
            answer(message, f"life {LIFE}: {given['who']['content']['name']}, {message['params']['requestState']}")
    serve(ask=ask)
"""
KILLED_BY_SIGNAL = """
    from speak import *
    serve(look=lambda message: os.kill(os.getpid(), signal.SIGSEGV))
"""
ANSWERS_THEN_DIES = """
    from speak import *
    def last(message):
        write(words(message, "my last words" + "." * 1_000_000))
        os._exit(0)
    serve(last=last)
"""
# Closes its output and keeps running.
CLOSES_STDOUT = """
    from speak import *
    serve(look=lambda message: os.close(1))
"""
# Exits, but its child holds its output open.
HOLDS_STDOUT = """
    from speak import *
    def crash(message):
        if os.fork() == 0:
            while True:
                time.sleep(3600)
        os._exit(7)
    serve(look=crash)
"""
