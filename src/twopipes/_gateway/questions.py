"""Questions of the server behind the gateway: carried to the host whose call caused them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from twopipes._gateway.front_call import ClientIdentity, FrontCall
from twopipes._protocol.types import ClientCapabilities, Implementation, InputRequiredResult, Result
from twopipes._session.ledger import Call, SentRequest
from twopipes.errors import CapabilityMissing, InvalidParams, MethodNotFound

if TYPE_CHECKING:
    from twopipes._gateway.back import Back


class Questions:
    """Answers the questions of one server. It replaces the callbacks of a client.

    Attributes:
        server: The server that asks, as it reports itself.
    """

    def __init__(self, back: Back) -> None:
        self._back = back
        self.server: Implementation | None = None

    def declared(self, client: ClientIdentity) -> ClientCapabilities:
        """Return the capabilities to open the server with, for a first host with this client."""
        return ClientCapabilities()

    async def answer_call(self, call: Call, causes: Sequence[SentRequest]) -> Result:
        """Answer a request of a legacy server, to which one of these requests of ours may have led."""
        raise MethodNotFound(f"{call.method} cannot be passed to the host")

    async def answer_all(self, asking: InputRequiredResult, method: str) -> dict[str, Result]:
        """Not used: questions of a modern server are in raw results."""
        raise NotImplementedError

    async def resolve(self, raw: Raw, params: Mapping[str, Any], call: FrontCall) -> Raw:
        """Ask a legacy host what a modern server asks in the result ``raw``; return the final result."""
        raise CapabilityMissing({}, message=f"the server asks for input during {call.call.method}, which cannot be passed on")

    def check_resumed(self, call: FrontCall) -> None:
        """Refuse a retry of a modern host whose parked call is gone, or whose state a legacy server cannot know.

        Raises:
            InvalidParams: The state cannot be used.
        """
        if getattr(call.call.params, "request_state", None) is not None:
            raise InvalidParams("the call that asked for this input is gone; start the call again without requestState")
