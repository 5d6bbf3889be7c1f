"""Connections over TCP and TLS, also through a proxy, which end with their call even if the other side hangs."""
from __future__ import annotations

import base64
import http.client
import io
import ipaddress
import socket
import ssl
import urllib.parse
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from .deadline import Deadline


class Proxy(NamedTuple):
    """An HTTP proxy, and the credentials for it."""

    address: Tuple[str, int]
    authorization: Optional[str]


def proxy_of(url: str) -> Proxy:
    """Reads the address of a proxy. Raises ValueError."""
    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"proxy: expected http://host:port, not {parts.scheme}://…")
    authorization = None
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode("utf-8")).decode("ascii")
    return Proxy((parts.hostname, parts.port or 80), authorization)


def connected(host: str, port: int, deadline: Deadline, context: Optional[Callable[[], ssl.SSLContext]],
              proxy: Optional[Proxy]) -> socket.socket:
    """Opens a connection, with TLS if there is a context. Raises OSError, ValueError, HTTPException, TimeoutError."""
    sock = _dialed(*(proxy.address if proxy else (host, port)), deadline)
    try:
        if proxy:
            _tunnel(sock, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", proxy.authorization, deadline)
        if context:
            sock.settimeout(deadline.remaining())
            sock = context().wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
            deadline.watch(sock)
            sock.do_handshake()
        return sock
    except BaseException:
        sock.close()
        raise


def _dialed(host: str, port: int, deadline: Deadline) -> socket.socket:
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
    response = http.client.HTTPResponse(TimedSocket(sock, deadline), method="CONNECT")  # type: ignore[arg-type]
    try:
        response.begin()
        if response.status != 200:
            raise OSError(f"the proxy answered {response.status} {response.reason:.200}")
    finally:
        response.close()


class TimedSocket:
    """The methods that an HTTPResponse needs of a socket. A service that sends a byte now and then does not prolong the
    call.
    """

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
