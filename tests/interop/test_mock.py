"""Official clients get the same results from a mock as from the server that it was recorded from."""

import shlex
import sys

import pytest

from interop.harness import EVERYTHING, visit_of
from interop.test_everything import official_2, typescript
from interop.test_tap import settled, tapped
from twopipes._protocol.revisions import LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform == "win32", reason="the witness reports through a FIFO"),
]


@pytest.mark.parametrize(
    ("client", "mode"),
    [
        pytest.param(official_2, "auto", id="official-2-auto"),
        pytest.param(official_2, "legacy", id="official-2-legacy"),
        pytest.param(typescript, None, id="typescript-default"),
        pytest.param(typescript, {"pin": LATEST_MODERN}, id="typescript-pinned"),
    ],
)
def test_a_session_with_a_mock_has_the_same_results(client, mode, tmp_path):
    (tmp_path / "real").mkdir()
    real = visit_of(client(), mode=mode, folder=tmp_path / "real", server=tapped(EVERYTHING, tmp_path / "real"))
    # The last of several launches holds the conversation; earlier ones only find out which era the server supports.
    recording = tmp_path / "real" / "trace.jsonl"
    (tmp_path / "mock").mkdir()
    script = tmp_path / "mock" / "mock.sh"
    script.write_text(f"exec {shlex.join([sys.executable, '-m', 'twopipes', 'mock', str(recording)])}\n")
    mock = visit_of(client(), mode=mode, folder=tmp_path / "mock", server=["sh", str(script)])
    assert settled(mock.findings) == settled(real.findings)
