"""HTTP for the client: connections that are kept, one time limit for a whole call, and a limit on every answer.

No request that may have arrived is sent again.
"""
from __future__ import annotations

import base64
import email.message
import http.client
import io
import ipaddress
import selectors
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, TypeVar

from .. import __version__

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


_T = TypeVar("_T")


class Deadline:
    """The end of a call, which another thread may bring about with `cancel`. `begun` is a time of the monotonic clock."""

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
        """Whether there is no time left."""
        return self._is_cancelled or (self._end is not None and time.monotonic() >= self._end)

    def pause(self, seconds: float) -> None:
        """Sleeps, but not beyond the end. Raises TimeoutError when there is no time left."""
        remaining = self.remaining()
        time.sleep(seconds if remaining is None else min(seconds, remaining))

    def run(self, call: Callable[[], _T]) -> _T:
        """Runs what has no time limit of its own in a thread, which is left to itself when there is no time left."""
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
        """Ends the call, whatever it waits for."""
        with self._lock:
            self._is_cancelled = True
            if self._socket is not None:
                _shut(self._socket)


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
        self._proxy = _proxy(proxy) if proxy and self._is_tls else None
        name = f"[{self._host}]" if ":" in self._host else self._host
        self.host = name if parts.port in (None, 443 if self._is_tls else 80) else f"{name}:{parts.port}"
        self._headers = {"Host": self.host, "User-Agent": f"wkr-serving/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._lock = threading.Lock()
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []
        self._busy: Set[http.client.HTTPConnection] = set()
        self._is_closed = False

    def request(self, method: str, path: str, deadline: Deadline, body: Any = None,
                headers: Optional[Dict[str, str]] = None) -> Answer:
        """Raises WKRError (unreachable, connection_lost, malformed_answer, too_large, closed) and TimeoutError."""
        try:
            return self._exchange(method, path, deadline, body, headers or {})
        except WKRError as error:
            # To read twice does no harm.
            if method != "GET" or error.code != "connection_lost":
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
                _shut(sock)

    def _exchange(self, method: str, path: str, deadline: Deadline, body: Any, headers: Dict[str, str]) -> Answer:
        connection = self._take(deadline)
        is_kept = False
        try:
            response = _respond(connection, deadline, method, self._prefix + path, body, {**self._headers, **headers})
            body = _read(response, self.max_bytes)
            answer = Answer(response.status, response.headers.get_content_type(), body, response.headers)
            is_kept = not response.will_close
            return answer
        except OSError as error:
            raise self._lost(error, deadline) from error
        except http.client.IncompleteRead as error:
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
        host, port = self._proxy.address if self._proxy else (self._host, self._port)
        sock = _connected(host, port, deadline)
        try:
            if self._proxy:
                _tunnel(sock, f"{self._host}:{self._port}", self._proxy.authorization, deadline)
            if self._is_tls:
                context = self._ssl_context or ssl.create_default_context()
                sock.settimeout(deadline.remaining())
                sock = context.wrap_socket(sock, server_hostname=self._host, do_handshake_on_connect=False)
                deadline.watch(sock)
                sock.do_handshake()
        except BaseException:
            sock.close()
            raise
        connection = http.client.HTTPConnection(self._host, self._port)
        # It connects only here: a request that opened a connection by itself could be sent twice.
        connection.auto_open = 0
        connection.sock = sock
        return connection

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


def error_of(answer: Answer, parse: Any) -> WKRError:
    """The error of an answer that is none of 2xx; `parse` reads JSON."""
    try:
        envelope = parse(answer.body)
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict):
        envelope = {}
    code, message = envelope.get("code"), envelope.get("error_message") or envelope.get("error")
    if not isinstance(code, str):
        code = _CODES.get(answer.status, "bad_request" if answer.status < 500 else "internal")
    if not isinstance(message, str):
        message = f"the service answered {answer.status}"
    return WKRError(code[:64], message[:4096], answer.status)


class _Proxy(NamedTuple):
    address: Tuple[str, int]
    authorization: Optional[str]


def _proxy(url: str) -> _Proxy:
    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"proxy: expected http://host:port, not {parts.scheme}://…")
    authorization = None
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode("utf-8")).decode("ascii")
    return _Proxy((parts.hostname, parts.port or 80), authorization)


def _connected(host: str, port: int, deadline: Deadline) -> socket.socket:
    def resolve() -> List[Any]:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    addresses = resolve() if _is_address(host) else deadline.run(resolve)
    last: Optional[OSError] = None
    for i, (family, kind, protocol, _, address) in enumerate(addresses):
        remaining = deadline.remaining()
        sock = socket.socket(family, kind, protocol)
        try:
            deadline.watch(sock)
            # One address that does not answer leaves time for the others.
            sock.settimeout(remaining and remaining / (len(addresses) - i))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            last = error
    raise last or OSError(f"{host} has no address")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _tunnel(sock: socket.socket, target: str, authorization: Optional[str], deadline: Deadline) -> None:
    """Asks the proxy at the other end to connect to `target`."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if authorization is not None:
        lines.append(f"Proxy-Authorization: {authorization}")
    sock.settimeout(deadline.remaining())
    sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    response = http.client.HTTPResponse(_TimedSocket(sock, deadline), method="CONNECT")  # type: ignore[arg-type]
    try:
        response.begin()
        if response.status != 200:
            raise OSError(f"the proxy answered {response.status} {response.reason:.200}")
    finally:
        response.close()


def _pieces(body: Any, sock: socket.socket, deadline: Deadline) -> Iterator[memoryview]:
    view = memoryview(body)
    for start in range(0, len(view), _SENT_BYTES):
        # A service that takes a byte now and then does not prolong the call.
        sock.settimeout(deadline.remaining())
        yield view[start:start + _SENT_BYTES]


def _respond(connection: Any, deadline: Deadline, method: str, path: str, body: Any,
             headers: Dict[str, str]) -> http.client.HTTPResponse:
    connection.response_class = lambda sock, *args, **options: http.client.HTTPResponse(
        _TimedSocket(sock, deadline), *args, **options)  # type: ignore[arg-type]
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


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It has ended meanwhile.
        pass


def _is_readable(sock: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


class _TimedSocket:
    """What an HTTPResponse needs of a socket. A service that sends a byte now and then does not prolong the call."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedStream(self._sock, self._deadline))


class _TimedStream(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        # It keeps the socket open until the answer is read.
        self._raw: Any = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(self._deadline.remaining())
        count: Optional[int] = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
