"""Protocol state without I/O: sessions, their events and framing, for programs with their own I/O."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._jsonrpc import Batch, ErrorObject, ErrorResponse, Notification, Request, Response, decode, encode, salvage_id
    from twopipes._protocol.dialect import dialect
    from twopipes._session.client import ClientSession
    from twopipes._session.eras import CLIENT_MOVES, SERVER_MOVES, Kind, Move, Phase
    from twopipes._session.events import (
        CallAbandoned,
        CallCancelled,
        CallReceived,
        ClientOpened,
        Event,
        InputsAnswered,
        LineRejected,
        ListenAcknowledged,
        ListenEnded,
        ListenNotified,
        NotificationReceived,
        OpeningEnded,
        PeerClosed,
        PeerReportedError,
        ProgressReceived,
        RequestEnded,
        RequestIgnored,
        ServerOpened,
        SessionCallReceived,
    )
    from twopipes._session.identity import ClientProfile, ServerProfile
    from twopipes._session.ledger import Call
    from twopipes._session.server import ServerSession
    from twopipes._session.state_token import StateSealer
    from twopipes._wire import LineDecoder, encode_line
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "twopipes._jsonrpc": "Batch ErrorObject ErrorResponse Notification Request Response decode encode salvage_id",
            "twopipes._protocol.dialect": "dialect",
            "twopipes._session.client": "ClientSession",
            "twopipes._session.eras": "CLIENT_MOVES Kind Move Phase SERVER_MOVES",
            "twopipes._session.events": (
                "CallAbandoned CallCancelled CallReceived ClientOpened Event InputsAnswered LineRejected "
                "ListenAcknowledged ListenEnded ListenNotified NotificationReceived OpeningEnded PeerClosed "
                "PeerReportedError ProgressReceived RequestEnded RequestIgnored ServerOpened SessionCallReceived"
            ),
            "twopipes._session.identity": "ClientProfile ServerProfile",
            "twopipes._session.ledger": "Call",
            "twopipes._session.server": "ServerSession",
            "twopipes._session.state_token": "StateSealer",
            "twopipes._wire": "LineDecoder encode_line",
        },
    )

__all__ = [
    "CLIENT_MOVES",
    "SERVER_MOVES",
    "Batch",
    "Call",
    "CallAbandoned",
    "CallCancelled",
    "CallReceived",
    "ClientOpened",
    "ClientProfile",
    "ClientSession",
    "ErrorObject",
    "ErrorResponse",
    "Event",
    "InputsAnswered",
    "Kind",
    "LineDecoder",
    "LineRejected",
    "ListenAcknowledged",
    "ListenEnded",
    "ListenNotified",
    "Move",
    "Notification",
    "NotificationReceived",
    "OpeningEnded",
    "PeerClosed",
    "PeerReportedError",
    "Phase",
    "ProgressReceived",
    "Request",
    "RequestEnded",
    "RequestIgnored",
    "Response",
    "ServerOpened",
    "ServerProfile",
    "ServerSession",
    "SessionCallReceived",
    "StateSealer",
    "decode",
    "dialect",
    "encode",
    "encode_line",
    "salvage_id",
]
