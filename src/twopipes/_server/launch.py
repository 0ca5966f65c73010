"""The options of ``twopipes run`` for a file that runs its server itself. Imported before that file, so it imports nothing."""

from __future__ import annotations

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from typing import ClassVar


class Launch:
    """The options of ``twopipes run``, for a file that calls ``server.run()`` while it is imported."""

    current: ClassVar[Launch | None] = None

    def __init__(
        self,
        *,
        unix: str | None = None,
        tcp: tuple[str, int] | None = None,
        http: str | int | None = None,
        workers: int | None = None,
        public: bool = False,
        trace: str | None = None,
    ) -> None:
        self.unix = unix
        self.tcp = tcp
        self.http = http
        self.workers = workers
        self.public = public
        self.trace = trace
        self.has_served = False

    @property
    def is_stdio(self) -> bool:
        """Whether it names no other way to serve than standard input and output."""
        return self.unix is None and self.tcp is None and self.http is None
