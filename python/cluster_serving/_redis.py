"""The connection to Redis of the former way: every wait ends with its call, and an answer is read up to its limit."""
from __future__ import annotations

import contextvars
import socket
from typing import Any, Callable, Optional, TypeVar

from wkr_serving.client.connect import connected
from wkr_serving.client.deadline import Deadline

from ._api import MAX_BYTES
from ._errors import ServingError, extra

_T = TypeVar("_T")

_DEADLINE: "contextvars.ContextVar[Optional[Deadline]]" = contextvars.ContextVar("cluster_serving_redis", default=None)


def open_redis(host: str, port: int, timeout: float) -> Any:
    """Returns a client, which connects when it is first used. Needs the extra zoo."""
    redis = extra("redis", "zoo")

    class Connection(redis.Connection):  # type: ignore[name-defined,misc]
        def _connect(self) -> socket.socket:
            deadline = _DEADLINE.get() or Deadline(timeout * 1000, f"{host}:{port}")
            sock = connected(host, port, deadline, None, None)
            limited = _Socket(sock.family, sock.type, sock.proto, sock.detach())
            limited.settimeout(timeout)
            return limited

    # Without retries of its own: an XADD whose answer was lost would be two records.
    pool = redis.ConnectionPool(connection_class=Connection, host=host, port=port, db=0, socket_timeout=timeout, retry=None)
    return redis.StrictRedis(connection_pool=pool)


def within(deadline: Deadline, where: str, call: Callable[[], _T]) -> _T:
    """Runs commands. Raises timeout, too_large (an answer over 64 MiB), queue_unavailable."""
    token = _DEADLINE.set(deadline)
    try:
        deadline.remaining()
        return call()
    except (OSError, extra("redis", "zoo").exceptions.RedisError) as error:
        if deadline.is_over:
            raise ServingError("timeout", f"no answer from {where} in time") from error
        raise ServingError("queue_unavailable", f"{where}: {error}") from error
    finally:
        _DEADLINE.reset(token)


class _Socket(socket.socket):
    """A server that sends a byte now and then does not prolong the call, and an endless answer ends it."""

    _seconds: Optional[float] = None
    _read = 0

    def settimeout(self, seconds: Optional[float]) -> None:
        self._seconds = seconds
        super().settimeout(seconds)

    def sendall(self, *args: Any) -> None:
        self._read = 0
        self._limit()
        super().sendall(*args)

    def recv(self, *args: Any) -> bytes:
        self._limit()
        data = super().recv(*args)
        self._count(len(data))
        return data

    def recv_into(self, *args: Any) -> int:
        self._limit()
        size = super().recv_into(*args)
        self._count(size)
        return size

    def _limit(self) -> None:
        deadline = _DEADLINE.get()
        left = None if deadline is None else deadline.remaining()
        # redis-py looks without waiting whether a connection is still good.
        seconds = [each for each in (self._seconds, left) if each is not None]
        super().settimeout(min(seconds, default=None))

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > MAX_BYTES:
            raise ServingError("too_large", f"the answer of Redis is over the limit of {MAX_BYTES} bytes")
