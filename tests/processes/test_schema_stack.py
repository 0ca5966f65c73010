"""The deepest values that are passed to the library, on the smallest stack of a thread: the process survives."""

import subprocess
import sys

import pytest

# Both functions, for values up to the limit: whether a value is valid, and why it is not.
DEEPEST = """
import sys, threading
from twopipes._schema.validation import compile_schema

keyword, links = sys.argv[1], int(sys.argv[2])
schema = {"type": "object", "properties": {"c": {"$ref": "#"}}}
for _ in range(links):
    schema = {keyword: [schema]}

def judge():
    validator = compile_schema(schema)
    for inner in ({}, 1):
        value = inner
        for _ in range(300):
            value = {"c": value}
            validator.check(value)
    print("done")

threading.stack_size(512 * 1024)
thread = threading.Thread(target=judge)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("keyword", ["allOf", "anyOf"])
@pytest.mark.parametrize("links", [0, 1, 10, 45])
def test_no_value_overflows_the_stack(keyword, links):
    """JS-06."""
    child = subprocess.run(
        [sys.executable, "-c", DEEPEST, keyword, str(links)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (child.returncode, child.stdout, child.stderr) == (0, "done\n", "")
