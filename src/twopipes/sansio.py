"""Protocol state without I/O: sessions, their events and framing, for programs with their own I/O."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._jsonrpc import Batch as Batch
    from twopipes._jsonrpc import ErrorObject as ErrorObject
    from twopipes._jsonrpc import ErrorResponse as ErrorResponse
    from twopipes._jsonrpc import Notification as Notification
    from twopipes._jsonrpc import Request as Request
    from twopipes._jsonrpc import Response as Response
    from twopipes._jsonrpc import decode as decode
    from twopipes._jsonrpc import encode as encode
    from twopipes._jsonrpc import salvage_id as salvage_id
    from twopipes._protocol.dialect import dialect as dialect
    from twopipes._session.client import ClientSession as ClientSession
    from twopipes._session.eras import CLIENT_MOVES as CLIENT_MOVES
    from twopipes._session.eras import SERVER_MOVES as SERVER_MOVES
    from twopipes._session.eras import Kind as Kind
    from twopipes._session.eras import Move as Move
    from twopipes._session.eras import Phase as Phase
    from twopipes._session.events import CallAbandoned as CallAbandoned
    from twopipes._session.events import CallCancelled as CallCancelled
    from twopipes._session.events import CallReceived as CallReceived
    from twopipes._session.events import ClientOpened as ClientOpened
    from twopipes._session.events import Event as Event
    from twopipes._session.events import InputsAnswered as InputsAnswered
    from twopipes._session.events import ListenAcknowledged as ListenAcknowledged
    from twopipes._session.events import ListenEnded as ListenEnded
    from twopipes._session.events import ListenNotified as ListenNotified
    from twopipes._session.events import NotificationReceived as NotificationReceived
    from twopipes._session.events import OpeningEnded as OpeningEnded
    from twopipes._session.events import PeerClosed as PeerClosed
    from twopipes._session.events import PeerReportedError as PeerReportedError
    from twopipes._session.events import ProgressReceived as ProgressReceived
    from twopipes._session.events import RequestEnded as RequestEnded
    from twopipes._session.events import RequestIgnored as RequestIgnored
    from twopipes._session.events import ServerOpened as ServerOpened
    from twopipes._session.events import SessionCallReceived as SessionCallReceived
    from twopipes._session.identity import ClientProfile as ClientProfile
    from twopipes._session.identity import ServerProfile as ServerProfile
    from twopipes._session.ledger import Call as Call
    from twopipes._session.server import ServerSession as ServerSession
    from twopipes._session.state_token import StateSealer as StateSealer
    from twopipes._wire import LineDecoder as LineDecoder
    from twopipes._wire import LineRejected as LineRejected
    from twopipes._wire import encode_line as encode_line
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._jsonrpc": "Batch ErrorObject ErrorResponse Notification Request Response decode encode salvage_id",
            "twopipes._protocol.dialect": "dialect",
            "twopipes._session.client": "ClientSession",
            "twopipes._session.eras": "CLIENT_MOVES Kind Move Phase SERVER_MOVES",
            "twopipes._session.events": (
                "CallAbandoned CallCancelled CallReceived ClientOpened Event InputsAnswered "
                "ListenAcknowledged ListenEnded ListenNotified NotificationReceived OpeningEnded PeerClosed "
                "PeerReportedError ProgressReceived RequestEnded RequestIgnored ServerOpened SessionCallReceived"
            ),
            "twopipes._session.identity": "ClientProfile ServerProfile",
            "twopipes._session.ledger": "Call",
            "twopipes._session.server": "ServerSession",
            "twopipes._session.state_token": "StateSealer",
            "twopipes._wire": "LineDecoder LineRejected encode_line",
        },
    )
