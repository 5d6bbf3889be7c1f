"""The end of a call."""
from __future__ import annotations

import socket
import threading
import time
from typing import Callable, List, Optional, TypeVar

_T = TypeVar("_T")


class Deadline:
    """The end of a call. Another thread may bring it about with `cancel`. `begun` is a time of the monotonic clock."""

    def __init__(self, milliseconds: float, url: str, begun: Optional[float] = None) -> None:
        self._milliseconds = milliseconds
        self._url = url
        begun = time.monotonic() if begun is None else begun
        self._end = None if milliseconds < 0 else begun + milliseconds / 1000
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self._is_cancelled = False

    def remaining(self) -> Optional[float]:
        """The seconds that are left, None for no end. Raises TimeoutError."""
        if self._is_cancelled:
            raise TimeoutError(f"the call of {self._url} was cancelled")
        if self._end is None:
            return None
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(
                f"no answer from {self._url} within {self._milliseconds} ms: is the service running, "
                "is the port right, and is the timeout long enough for this data?")
        return seconds

    @property
    def is_over(self) -> bool:
        """True if there is no time left."""
        return self._is_cancelled or (self._end is not None and time.monotonic() >= self._end)

    def pause(self, seconds: float) -> None:
        """Sleeps, but not beyond the end. Raises TimeoutError when there is no time left."""
        remaining = self.remaining()
        time.sleep(seconds if remaining is None else min(seconds, remaining))

    def run(self, call: Callable[[], _T]) -> _T:
        """Runs work without a time limit of its own in a thread, and abandons the thread when no time is left."""
        ended = threading.Event()
        results: List[_T] = []
        errors: List[BaseException] = []

        def work() -> None:
            try:
                results.append(call())
            except BaseException as error:
                errors.append(error)
            ended.set()

        threading.Thread(target=work, daemon=True).start()
        while not ended.wait(self.remaining()):
            pass
        if errors:
            raise errors[0]
        return results[0]

    def watch(self, sock: Optional[socket.socket]) -> None:
        """The socket that `cancel` ends."""
        with self._lock:
            self._socket = sock
        if sock is not None:
            sock.settimeout(self.remaining())

    def cancel(self) -> None:
        """Ends the call, in any wait."""
        with self._lock:
            self._is_cancelled = True
            if self._socket is not None:
                shut(self._socket)


def shut(sock: socket.socket) -> None:
    """Ends what another thread waits for."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It has ended meanwhile.
        pass
