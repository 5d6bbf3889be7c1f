"""A queue in Redis."""
import json
import socket
import threading
from typing import Any, Optional, Sequence

from .._protocol.frames import refuse_constant

__all__ = ["RedisError", "RedisHandler"]

_CONNECT_S = 5
_ANSWER_S = 30
_LONGEST_WAIT_S = 24 * 60 * 60
_LINE_BYTES = 64 * 1024
# As much as Redis accepts by default.
_VALUE_BYTES = 512 * 1024 * 1024
_ELEMENTS = 1024
_DEPTH = 4
_ORDERS = ("fifo", "lifo")


class RedisError(Exception):
    """An error that Redis answered with, or an answer that breaks its protocol."""


class _Malformed(RedisError):
    """The connection cannot be used any more."""


class RedisHandler:
    """A queue under the key `queue_key`: what is pushed first is popped first, or with `order="lifo"` last.

    Values are stored as JSON, so that what is popped equals what was pushed. The connection is opened when it is
    first needed, and again after it broke. One handler may serve several threads, one after the other.
    """

    def __init__(self, queue_key: Any, ip: str = "localhost", port: Any = 6379, db: Any = 0, password: Any = None,
                 order: str = "fifo") -> None:
        if order not in _ORDERS:
            raise ValueError(f"order: expected fifo or lifo, got {order!r}")
        self.queue_key = queue_key
        self._side = b"L" if order == "fifo" else b"R"
        self._connection = _Connection(ip, int(port), int(db), password)
        self._lock = threading.Lock()

    def push(self, value: Any, custom_queue: Any = None) -> Any:
        """Appends a value that JSON can hold, and returns the length of the queue.

        A ConnectionError may mean that the value has arrived; it is sent again only when it cannot have arrived.
        """
        return self._ask(b"RPUSH", _key(custom_queue, self.queue_key), _encode(value))

    def pop(self, custom_queue: Any = None, timeout: float = 0) -> Any:
        """Takes a value, or returns None when there is none after `timeout` seconds.

        A value that is not JSON, because another program pushed it, is a str, or bytes where it is not UTF-8.
        """
        key = _key(custom_queue, self.queue_key)
        if not 0 <= timeout <= _LONGEST_WAIT_S:
            raise ValueError(f"timeout: expected 0 to {_LONGEST_WAIT_S} seconds, got {timeout!r}")
        if timeout == 0:
            # Once more is right: what the first attempt may have taken is lost in any case.
            data = self._ask(self._side + b"POP", key, again=True)
        else:
            pair = self._ask(b"B" + self._side + b"POP", key, _seconds(timeout), again=True, wait_s=timeout)
            data = None if pair is None else pair[1]
        return None if data is None else _decode(data)

    def set(self, key: Any, value: Any) -> None:
        """Stores a value that JSON can hold under a key of its own."""
        self._ask(b"SET", _bytes(key), _encode(value), again=True)

    def close(self) -> None:
        """Closes the connection. The next call opens it again."""
        self._connection.close()

    def _ask(self, *words: bytes, again: bool = False, wait_s: float = 0) -> Any:
        with self._lock:
            return self._connection.ask(words, again, wait_s + _ANSWER_S)


class _Connection:
    def __init__(self, host: str, port: int, db: int, password: Any) -> None:
        self._address = (host, port)
        self._db = db
        self._password = password
        self._socket: Optional[socket.socket] = None
        self._stream: Any = None

    def ask(self, words: Sequence[bytes], again: bool, limit_s: float) -> Any:
        """Sends a command and returns the answer. With `again` it is sent once more when the connection broke."""
        for attempt in (1, 2):
            sent = False
            try:
                connected = self._open()
                connected.settimeout(limit_s)
                # A call that raises has not sent everything, and Redis never runs part of a command.
                connected.sendall(_command(words))
                sent = True
                return self._answer()
            except (OSError, EOFError) as error:
                self.close()
                # After a timeout the answer may still come: Redis is busy, not gone.
                may_repeat = again or not sent
                if attempt == 2 or not may_repeat or isinstance(error, socket.timeout):
                    # The words are left out: they may hold the password.
                    name, where = words[0].decode(), "%s:%d" % self._address
                    what = "may have arrived" if sent else "was not sent"
                    reason = str(error) or "the connection ended"
                    raise ConnectionError(f"Redis at {where}: {name} {what}: {reason}") from error
            except _Malformed:
                self.close()
                raise
        raise AssertionError("the second attempt returns or raises")

    def close(self) -> None:
        stream, connected = self._stream, self._socket
        self._stream = self._socket = None
        for each in (stream, connected):
            if each is not None:
                each.close()

    def _open(self) -> socket.socket:
        if self._socket is not None and not _has_ended(self._socket):
            return self._socket
        self.close()
        connected = socket.create_connection(self._address, _CONNECT_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket, self._stream = connected, connected.makefile("rb")
        try:
            if self._password is not None:
                self._do(connected, b"AUTH", _bytes(self._password))
            if self._db != 0:
                self._do(connected, b"SELECT", b"%d" % self._db)
        except RedisError:
            self.close()
            raise
        return connected

    def _do(self, connected: socket.socket, *words: bytes) -> None:
        connected.sendall(_command(words))
        self._answer()

    def _answer(self) -> Any:
        answer = self._read(_DEPTH)
        if isinstance(answer, RedisError):
            raise answer
        return answer

    def _read(self, depth: int) -> Any:
        line = self._stream.readline(_LINE_BYTES)
        if not line:
            raise EOFError
        if not line.endswith(b"\r\n"):
            raise _broken("a line is too long or cut off")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return RedisError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return _number(rest)
        if kind == b"$":
            return self._bytes(_number(rest))
        if kind == b"*":
            length = _number(rest)
            if length > _ELEMENTS or depth == 0:
                raise _broken("a list is too long or too deep")
            return None if length < 0 else [self._read(depth - 1) for _ in range(length)]
        raise _broken("an answer of an unknown type")

    def _bytes(self, length: int) -> Optional[bytes]:
        if length < 0:
            return None
        if length > _VALUE_BYTES:
            raise _broken(f"a value of {length} bytes is over the limit of {_VALUE_BYTES}")
        data = self._stream.read(length + 2)
        if len(data) < length + 2:
            raise EOFError
        return bytes(data[:-2])


def _has_ended(connected: socket.socket) -> bool:
    # Nothing is due between two commands: what can be read is the end of the connection.
    connected.settimeout(0)
    try:
        connected.recv(1, socket.MSG_PEEK)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def _command(words: Sequence[bytes]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
    return b"".join(parts)


def _number(text: bytes) -> int:
    # Not int() alone, which takes spaces, underscores and thousands of digits.
    if len(text) > 20 or not text.lstrip(b"-").isdigit():
        raise _broken("a number is malformed")
    return int(text)


def _broken(problem: str) -> _Malformed:
    return _Malformed(f"malformed answer: {problem}")


def _seconds(timeout: float) -> bytes:
    # 0 would wait forever, and a Redis before 6.0 takes whole seconds only.
    return b"%d" % timeout if timeout == int(timeout) else b"%.3f" % max(timeout, 0.001)


def _key(custom: Any, default: Any) -> bytes:
    return _bytes(default if custom is None else custom)


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8")


def _encode(value: Any) -> bytes:
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the value cannot be pushed: {error}") from error
    if not same:
        raise TypeError("the value would be popped changed: push lists, not tuples, and dicts whose keys are str")
    return text.encode("ascii")


def _decode(data: bytes) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return text
