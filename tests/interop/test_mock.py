"""Official clients against a mock of the server that they talked to before: they find the same."""

import shlex
import sys

import pytest

from interop.harness import EVERYTHING, visit_of
from interop.test_everything import official_2, typescript
from interop.test_tap import settled, tapped
from twopipes._protocol.revisions import LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform == "win32", reason="the witness tells through a FIFO"),
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
    # Of several launches the last one is the conversation; those before it were to find out what the server speaks.
    recording = tmp_path / "real" / "trace.jsonl"
    (tmp_path / "mock").mkdir()
    script = tmp_path / "mock" / "mock.sh"
    script.write_text(f"exec {shlex.join([sys.executable, '-m', 'twopipes', 'mock', str(recording)])}\n")
    mock = visit_of(client(), mode=mode, folder=tmp_path / "mock", server=["sh", str(script)])
    assert settled(mock.findings) == settled(real.findings)
