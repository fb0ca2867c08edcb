"""What is known about a server's streamed lists (`sendInitialEvents`): learnt by one reflector, used by all of a
client.

Whether a server streams cannot be asked: the feature was alpha in 1.27, on in 1.32, off in 1.33, on again from 1.34,
and each release may be configured otherwise. So it is tried, and a refusal is remembered for the life of the process.
"""

from __future__ import annotations


class StreamingSupport:
    """Whether this API server can stream lists; shared by the reflectors of one client."""

    def __init__(self, *, refused: bool = False) -> None:
        self._refused = refused

    @property
    def refused(self) -> bool:
        """True once the server has shown that it cannot."""
        return self._refused

    def refuse(self) -> None:
        """Never try again in this process."""
        self._refused = True
