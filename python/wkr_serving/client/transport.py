"""HTTP for the client: connections that are kept, one time limit for a whole call, and a limit on every answer.

No request that may have arrived is sent again.
"""
from __future__ import annotations

import email.message
import http.client
import os
import selectors
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .. import __version__
from .._protocol.frames import ProtocolError, parse_json
from .connect import TimedSocket, connected, proxy_of
from .deadline import Deadline, shut

# A frame, in both directions.
MAX_BYTES = 32 * 1024 * 1024

# Node closes a connection after 5 s without a request.
_IDLE_SECONDS = 4.0
_KEPT = 16
_PIECE_BYTES = 1024 * 1024
# One TLS record, so that each piece has one wait for the socket.
_SENT_BYTES = 16 * 1024
_CODES = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 413: "too_large", 415: "unsupported_media_type",
          422: "model_failed", 429: "rate_limited", 503: "model_unavailable", 504: "timeout"}


class WKRError(Exception):
    """A request that failed. `code` says why, `status` is the HTTP status of a request that was refused as a whole."""

    def __init__(self, code: str, message: str, status: Optional[int] = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status

    def __reduce__(self) -> Tuple[Any, ...]:
        return WKRError, (self.code, self.message, self.status)


class Answer(NamedTuple):
    status: int
    media_type: str
    body: bytes
    headers: email.message.Message


class Http:
    """The service at a URL. Threads may share it: each request has a connection to itself.

    `ssl_context` is by default that of the system, with the variables SSL_CERT_FILE and SSL_CERT_DIR. `proxy` is the
    `http://host:port` through which an https URL is reached.
    """

    def __init__(self, url: str, token: Optional[str], max_bytes: int = MAX_BYTES,
                 ssl_context: Optional[ssl.SSLContext] = None, proxy: Optional[str] = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
            raise ValueError(f"url: expected http://host:port or https://host:port, not {parts.scheme}://…")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.max_bytes = max_bytes
        self._is_tls = parts.scheme == "https"
        self._host, self._prefix = parts.hostname, parts.path.rstrip("/")
        self._port = parts.port or (443 if self._is_tls else 80)
        self._ssl_context = ssl_context
        self._proxy = proxy_of(proxy) if proxy and self._is_tls else None
        name = f"[{self._host}]" if ":" in self._host else self._host
        self.host = name if parts.port in (None, 443 if self._is_tls else 80) else f"{name}:{parts.port}"
        self._headers = {"Host": self.host, "User-Agent": f"wkr-serving/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._is_closed = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []
        self._busy: Set[http.client.HTTPConnection] = set()

    def request(self, method: str, path: str, deadline: Deadline, body: Any = None,
                headers: Optional[Dict[str, str]] = None, again: bool = True) -> Answer:
        """Raises WKRError (unreachable, connection_lost, malformed_answer, too_large, closed) and TimeoutError.

        With `again`, a GET whose connection was lost is sent once more.
        """
        try:
            return self._exchange(method, path, deadline, body, headers or {})
        except WKRError as error:
            # To read twice does no harm.
            if not again or method != "GET" or error.code != "connection_lost":
                raise
        return self._exchange(method, path, deadline, body, headers or {})

    def close(self) -> None:
        """Ends the requests of other threads too."""
        with self._lock:
            self._is_closed = True
            busy = [connection.sock for connection in self._busy]
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()
        for sock in busy:
            if sock is not None:
                shut(sock)

    def _exchange(self, method: str, path: str, deadline: Deadline, body: Any, headers: Dict[str, str]) -> Answer:
        connection = self._take(deadline)
        is_kept = False
        try:
            response = _respond(connection, deadline, method, self._prefix + path, body, {**self._headers, **headers})
            body = _read(response, self.max_bytes)
            answer = Answer(response.status, response.headers.get_content_type(), body, response.headers)
            is_kept = not response.will_close
            return answer
        except (OSError, http.client.IncompleteRead) as error:
            raise self._lost(error, deadline) from error
        except (http.client.HTTPException, ValueError) as error:
            raise WKRError("malformed_answer", f"{self.url} does not answer in HTTP: {error!r:.200}") from error
        finally:
            deadline.watch(None)
            self._give(connection, is_kept)

    def _lost(self, error: Exception, deadline: Deadline) -> WKRError:
        if self._is_closed:
            return WKRError("closed", "the client was closed")
        # A timeout of the socket ends at the deadline, and says less.
        deadline.remaining()
        return WKRError("connection_lost", f"{self.url} closed the connection before it answered; "
                        f"the request may have been processed ({error!r:.200})")

    def _take(self, deadline: Deadline) -> http.client.HTTPConnection:
        deadline.remaining()
        if self._is_closed:
            raise WKRError("closed", "the client is closed")
        if self._process != os.getpid():
            # After a fork, the connections are those of the parent.
            self._begin()
        connection = self._kept()
        if connection is None:
            try:
                connection = self._open(deadline)
            except (OSError, ValueError, http.client.HTTPException) as error:
                deadline.remaining()
                raise WKRError("unreachable", f"{self.url} cannot be reached: {error}") from error
        with self._lock:
            self._busy.add(connection)
        if self._is_closed:
            self._give(connection, False)
            raise WKRError("closed", "the client is closed")
        return connection

    def _open(self, deadline: Deadline) -> http.client.HTTPConnection:
        sock = connected(self._host, self._port, deadline, self._context if self._is_tls else None, self._proxy)
        connection = http.client.HTTPConnection(self._host, self._port)
        # It connects only here: a request that opened a connection by itself could be sent twice.
        connection.auto_open = 0
        connection.sock = sock
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
        return self._ssl_context

    def _kept(self) -> Optional[http.client.HTTPConnection]:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()
            # Bytes before a request, or the end: the service has closed it.
            if time.monotonic() - since < _IDLE_SECONDS and not _is_readable(connection.sock):
                return connection
            connection.close()

    def _give(self, connection: http.client.HTTPConnection, is_kept: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if is_kept and not self._is_closed and len(self._idle) < _KEPT and connection.sock is not None:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


def object_of(answer: Answer) -> Dict[str, Any]:
    """The JSON object of an answer; an empty one if there is none."""
    try:
        value = parse_json(answer.body, "answer")
    except ProtocolError:
        return {}
    return value if isinstance(value, dict) else {}


def error_of(answer: Answer) -> WKRError:
    """The error of an answer that is none of 2xx."""
    envelope = object_of(answer)
    code, message = envelope.get("code"), envelope.get("error_message") or envelope.get("error")
    if not isinstance(code, str):
        code = _CODES.get(answer.status, "bad_request" if answer.status < 500 else "internal")
    if not isinstance(message, str):
        message = f"the service answered {answer.status}"
    return WKRError(code[:64], message[:4096], answer.status)


def _pieces(body: Any, sock: socket.socket, deadline: Deadline) -> Iterator[memoryview]:
    view = memoryview(body)
    for start in range(0, len(view), _SENT_BYTES):
        # A service that takes a byte now and then does not prolong the call.
        sock.settimeout(deadline.remaining())
        yield view[start:start + _SENT_BYTES]


def _respond(connection: Any, deadline: Deadline, method: str, path: str, body: Any,
             headers: Dict[str, str]) -> http.client.HTTPResponse:
    connection.response_class = lambda sock, *args, **options: http.client.HTTPResponse(
        TimedSocket(sock, deadline), *args, **options)  # type: ignore[arg-type]
    deadline.watch(connection.sock)
    pieces = None
    if body is not None:
        headers = {**headers, "Content-Length": str(len(body))}
        pieces = _pieces(body, connection.sock, deadline)
    try:
        connection.request(method, path, body=pieces, headers=headers)
    except (BrokenPipeError, ConnectionResetError):
        # A service that refuses a request may answer and close before it has read all of it.
        pass
    response: http.client.HTTPResponse = connection.getresponse()
    return response


def _read(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    length = response.length
    body = bytearray()
    while length is None or length <= max_bytes:
        piece = response.read(_PIECE_BYTES)
        body += piece
        if not piece:
            if length is not None and len(body) < length:
                raise http.client.IncompleteRead(b"", length - len(body))
            return bytes(body)
        if len(body) > max_bytes:
            break
    raise WKRError("too_large", f"the answer is over the limit of {max_bytes} bytes")


def _is_readable(sock: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))
