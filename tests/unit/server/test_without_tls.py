"""asyncio is imported without OpenSSL, and nobody can tell: in processes of their own, because a module is imported once."""

import json
import subprocess
import sys

import pytest

IMPORTED = "import json, sys\nfrom twopipes._server.without_tls import import_asyncio\n"


def told_by(program, **options):
    """What a program prints as JSON, as its last line."""
    child = subprocess.run(
        [sys.executable, "-c", IMPORTED + program], capture_output=True, text=True, timeout=60, check=False, **options
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


def test_asyncio_comes_without_openssl():
    assert told_by(
        "import_asyncio()\nimport asyncio, ssl\nprint(json.dumps(['asyncio' in sys.modules, '_ssl' in sys.modules]))"
    ) == [True, False]


@pytest.mark.parametrize(
    "use",
    [
        "import ssl; ssl.create_default_context()",
        "from ssl import CERT_NONE",
        "from ssl import *; SSLContext",
        "import ssl; assert 'SSLContext' in dir(ssl)",
        "import asyncio.sslproto; asyncio.sslproto.SSLProtocol",
        "from asyncio.sslproto import SSLProtocol",
        "from asyncio import sslproto; sslproto.SSLProtocol",
        "import http.client; http.client.HTTPSConnection('127.0.0.1')",
        "import asyncio, ssl; asyncio.run(asyncio.start_server(print, '127.0.0.1', 0, ssl=ssl.create_default_context()))",
    ],
)
def test_whoever_wants_it_gets_it(use):
    look = "['_ssl' in sys.modules, type(ssl) is types.ModuleType, ssl is sys.modules['ssl']]"
    assert told_by(f"import_asyncio()\n{use}\nimport ssl, types\nprint(json.dumps({look}))") == [True, True, True]


def test_many_threads_may_want_it_at_once():
    program = """
import_asyncio()
from threading import Barrier, Thread
start, found = Barrier(8), []
def want():
    start.wait(20)
    import ssl
    found.append(ssl.create_default_context() is not None and ssl.CERT_REQUIRED)
threads = [Thread(target=want) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join(20)
print(json.dumps([int(each) for each in found]))
"""
    assert told_by(program) == [2] * 8


@pytest.mark.parametrize("before", ["import asyncio", "import ssl"])
def test_what_is_there_already_stays(before):
    look = "[ssl is was, type(ssl) is types.ModuleType]"
    program = f"{before}\nwas = sys.modules['ssl']\nimport_asyncio()\nimport asyncio, ssl, types\nprint(json.dumps({look}))"
    assert told_by(program) == [True, True]


def test_a_python_without_openssl_is_left_to_asyncio():
    program = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name == "_ssl" else find(name, *rest))
sys.modules["_ssl"] = None
import_asyncio()
import asyncio.base_events
print(json.dumps(asyncio.base_events.ssl))
"""
    assert told_by(program) is None


def test_names_that_are_not_there_are_missed_as_ever():
    program = """
import_asyncio()
import ssl
found = [hasattr(ssl, "__path__"), "_ssl" in sys.modules, hasattr(ssl, "nothing_of_this_name"), "_ssl" in sys.modules]
print(json.dumps(found))
"""
    assert told_by(program) == [False, False, False, True]
