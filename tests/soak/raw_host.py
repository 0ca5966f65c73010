"""A host without twopipes: ``raw_host.py ERA COMMAND...`` launches a server, and reports the outcome of each call that it reads.

Each line of its input is a call, ``{"tool": ..., "arguments": {"word": ..., ...}}``; each line of its output is an event: ``pid``
of the launched process, ``opened``, ``asked`` or an ``outcome`` (``result``, ``error`` or ``closed``) of a word, ``refused`` if the
opening failed, and ``closed`` when the server has closed its output. It answers every question with the word that it contains.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

INFO = {"name": "raw", "version": "1"}
ABLE = {"elicitation": {"form": {}}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": ABLE,
}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": ABLE, "clientInfo": INFO}
# Seconds until a server that does not exit on EOF is killed, as hosts do.
GRACE = 20.0


class Host:
    """One connection.

    Args:
        era: ``legacy`` or ``modern``.
        command: What the host's configuration has.
    """

    def __init__(self, era: str, command: list[str]) -> None:
        self.is_modern = era == "modern"
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._writing = threading.Lock()
        self._reporting = threading.Lock()
        self._open: dict[int, dict[str, Any]] = {}
        self._next_id = 1
        self._is_closed = False
        self.report("pid", pid=self.server.pid)

    def report(self, event: str, **more: Any) -> None:
        """Write an event."""
        with self._reporting:
            print(json.dumps({"event": event, **more}), flush=True)

    def send(self, message: dict[str, Any]) -> None:
        """Write a message; a server that is gone is found by the reader."""
        with self._writing:
            try:
                self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                self.server.stdin.flush()
            except OSError:
                pass

    def request(self, method: str, params: dict[str, Any], word: str | None) -> None:
        """Send a request, and note which call it belongs to."""
        with self._reporting:
            is_closed, number = self._is_closed, self._next_id
            self._next_id += 1
            if not is_closed:
                self._open[number] = {"method": method, "params": params, "word": word}
        if is_closed:
            self.report("outcome", word=word, outcome="closed", text="it was closed before the call")
        else:
            self.send({"id": number, "method": method, "params": {**params, "_meta": META} if self.is_modern else params})

    def read(self) -> None:
        """Handle the messages of the server until it closes its output."""
        for line in self.server.stdout:
            message = json.loads(line)
            if "method" not in message:
                self._on_response(message)
            elif "id" in message:
                self._on_question(message)
        with self._reporting:
            self._is_closed = True
            lost, self._open = self._open, {}
        for asked in lost.values():
            self._end(asked, "closed", "the server closed its output")
        self.report("closed")

    def _on_response(self, message: dict[str, Any]) -> None:
        with self._reporting:
            asked = self._open.pop(message.get("id"), None)
        if asked is None:
            self.report("stray", text=json.dumps(message)[:500])
        elif "error" in message:
            self._end(asked, "error", message["error"]["message"])
        elif message["result"].get("resultType") == "input_required":
            self._on_input_required(asked, message["result"])
        else:
            self._end(asked, "result", message["result"])

    def _end(self, asked: dict[str, Any], outcome: str, found: Any) -> None:
        if asked["word"] is not None:
            if outcome == "result":
                found = found["content"][0]["text"]
                outcome = "result" if found == asked["word"] else "error"
            self.report("outcome", word=asked["word"], outcome=outcome, text=found)
        elif outcome != "result":
            self.report("refused", text=found)
        else:
            if not self.is_modern:
                self.send({"method": "notifications/initialized"})
            self.report("opened")

    def _on_question(self, message: dict[str, Any]) -> None:
        if message["method"] != "elicitation/create":
            self.send({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
            return
        word = message["params"]["message"]
        self.report("asked", word=word)
        self.send({"id": message["id"], "result": {"action": "accept", "content": {"word": word}}})

    def _on_input_required(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        answers = {}
        for key, question in result.get("inputRequests", {}).items():
            word = question["params"]["message"]
            self.report("asked", word=word)
            answers[key] = {"action": "accept", "content": {"word": word}}
        again = {**asked["params"], "inputResponses": answers}
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        self.request(asked["method"], again, asked["word"])


def main() -> None:
    """Open the connection, make the calls, and close it at the end of the input."""
    host = Host(sys.argv[1], sys.argv[2:])
    reader = threading.Thread(target=host.read)
    reader.start()
    if host.is_modern:
        host.request("server/discover", {}, None)
    else:
        host.request("initialize", OPENING, None)
    for line in sys.stdin:
        call = json.loads(line)
        host.request("tools/call", {"name": call["tool"], "arguments": call["arguments"]}, call["arguments"]["word"])
    host.server.stdin.close()
    try:
        host.server.wait(GRACE)
    except subprocess.TimeoutExpired:
        host.report("stubborn")
        host.server.kill()
    reader.join()


if __name__ == "__main__":
    main()
