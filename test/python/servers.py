"""Servers of the tests of the Python client, each of which answers every connection in its own way."""
import contextlib
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def silent(connection):
    """Accepts, and does not answer until the client leaves."""
    while connection.recv(65536):
        pass


def deaf(connection):
    """Does not even read."""
    DONE.wait()


def half(connection):
    connection.recv(65536)
    connection.sendall(HEAD + b'Content-Length: 1000\r\n\r\n{"status":')
    silent(connection)


def slow(connection):
    """One byte now and then, in the head of the answer."""
    connection.recv(65536)
    connection.sendall(HEAD)
    while not DONE.wait(0.02):
        connection.sendall(b"x: y\r\n"[:1])


def slow_body(connection):
    connection.recv(65536)
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not DONE.wait(0.02):
        connection.sendall(b"1\r\n \r\n")


def endless(connection):
    connection.recv(65536)
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(b" " * 65536)


def endless_head(connection):
    connection.recv(65536)
    connection.sendall(HEAD)
    while True:
        connection.sendall(b"x: " + b"y" * 1000 + b"\r\n")


def gone(connection):
    connection.recv(65536)


# Ends what waits.
DONE = threading.Event()


@contextlib.contextmanager
def raw(behaviour):
    """A server that treats each connection so. Yields its url."""
    listener = socket.create_server(("127.0.0.1", 0))

    def treat(connection):
        with connection, contextlib.suppress(OSError):
            behaviour(connection)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=treat, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


class Request:
    """A request that came. The names of its headers are in lower case."""

    def __init__(self, handler):
        self.method, self.path = handler.command, handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = handler.rfile.read(int(self.headers.get("content-length", 0)))


@contextlib.contextmanager
def api(answer, context=None):
    """A server that answers with (status, body) or (status, body, headers). Yields its url and the requests so far."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # The body follows its head at once.
        disable_nagle_algorithm = True

        def handle_one(self):
            request = Request(self)
            seen.append(request)
            status, body, *headers = answer(request)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = handle_one

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    # The error of a client that has left.
    server.handle_error = lambda *_: None
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"{'https' if context else 'http'}://localhost:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def certificate():
    """A certificate for localhost. Yields its file and a context of the server, or None without the openssl command."""
    if shutil.which("openssl") is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        path, key = os.path.join(folder, "c.pem"), os.path.join(folder, "k.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", key, "-out", path], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path, key)
        yield path, context
