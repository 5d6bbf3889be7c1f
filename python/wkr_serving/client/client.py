"""The clients: items go to the service as frames over HTTP, and results come back at once or when they are fetched."""
from __future__ import annotations

import io
import itertools
import os
import re
import threading
import time
import uuid
import warnings
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy

from .. import __version__
from .._protocol import frames, values
from .deadline import Deadline
from .transport import MAX_BYTES, Answer, Http, WKRError, error_of

PROTOCOL = 1

_MEDIA_TYPE = "application/x-wkr"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Room for the mark of the client.
_ID = re.compile(r"[A-Za-z0-9._-]{1,54}")
_TOKEN = re.compile(r"[\w.~+/-]+=*", re.ASCII)
_WAIT_SECONDS = 20
# Between two looks at a service that does not wait.
_LOOK_SECONDS = 0.25
_FULL_SECONDS = (0.05, 1.0)
# Items of encode_async whose results have not been taken.
_AHEAD = 256
_PIXELS = 1 << 24
# A refusal that is about one item; others are about all.
_ITEM_STATUSES = (400, 413, 415, 422, 429, 503, 504)
_END = object()


class Response(NamedTuple):
    """A result that was fetched. `embedding` is the value that the worker answered, None when the item failed."""

    id: str
    embedding: Any


class _Outcome(NamedTuple):
    id: str
    value: Any
    error: Optional[Exception]


class _Session:
    """The state of a client in one process: a fork begins with its own connections and requests."""

    def __init__(self, url: str, token: Optional[str]) -> None:
        self.process = os.getpid()
        self.http = Http(url, token)
        # Ends every id that is sent, because clients with the same identity count alike.
        self.mark = f"--{uuid.uuid4().hex[:8]}"
        self.count = 0
        # Guards everything below.
        self.changed = threading.Condition()
        # The ids by their marked form: of requests that have no result yet, and those that the service has accepted.
        self.pending: Dict[str, str] = {}
        self.accepted: Set[str] = set()
        self.arrived: Deque[_Outcome] = deque()
        self.cursor = 0
        # Held by the thread that asks for results.
        self.asking = threading.Lock()


class _Sending:
    """The thread of encode_async."""

    def __init__(self) -> None:
        self.is_done = False
        self.is_stopped = False
        self.error: Optional[BaseException] = None


class WKRClient:
    """A client of the service at `http://ip:port`, or at `url`. Threads may share it.

    `timeout` is in milliseconds for a whole call, -1 for no end. `token`, or else the variable WKR_TOKEN, is sent as a
    bearer token. `port_out` and `check_length` are accepted and not used. With `ignore_all_checks` the service need not
    be running yet; otherwise AttributeError says that it speaks another protocol.
    """

    def __init__(self, ip: str = "localhost", port: int = 5555, port_out: int = 5556, protocol: str = "obj",
                 show_server_config: bool = False, identity: Any = None, check_version: bool = True,
                 check_length: bool = False, ignore_all_checks: bool = False, timeout: float = 900000,
                 token: Optional[str] = None, url: Optional[str] = None) -> None:
        if protocol not in ("obj", "npy", "numpy"):
            raise AttributeError('"protocol" must be "obj", "npy" or "numpy"')
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not (timeout > 0 or timeout == -1):
            raise ValueError("timeout: expected milliseconds above 0, or -1 for no end")
        self.protocol = _protocol(protocol)
        self.identity = _identity(identity)
        self.ip, self.port, self.port_out, self.timeout = ip, port, port_out, timeout
        self._address = url or f"http://{_host(ip)}:{port}"
        self._token = _bearer(token)
        self.__session = _Session(self._address, self._token)
        if not ignore_all_checks:
            self._check(check_version, show_server_config)

    @property
    def status(self) -> Dict[str, Any]:
        """The state of this client."""
        session = self._session
        with session.changed:
            pending = set(session.pending.values()) | {outcome.id for outcome in session.arrived}
        return {"identity": self.identity, "num_request": session.count, "num_pending_request": len(pending),
                "pending_request": pending, "port": self.port, "port_out": self.port_out, "server_ip": self.ip,
                "client_version": __version__, "timeout": self.timeout}

    @property
    def server_status(self) -> Dict[str, Any]:
        """The state of the service: its flags, versions and statistics."""
        headers = {"Accept": "application/json"}
        answer = self._session.http.request("GET", "/status/server", self._deadline(), headers=headers)
        status = self._json(_accepted(answer, 200))
        if "error_code" in status and isinstance(status.get("data"), dict):
            return dict(status["data"])
        return status

    def encode(self, data: Any, blocking: bool = True, target_request_id: Any = None) -> Any:
        """Returns the worker's answer to an item; with `blocking=False` its id, for `fetch` and `fetch_all`.

        Raises WKRError when the item failed or was refused, TimeoutError, and TypeError with the path of what cannot be
        sent. With `blocking=False` it waits while the service has no room.
        """
        session, deadline = self._session, self._deadline()
        request_id = _next_id(session, target_request_id)
        if not blocking:
            self._send(session, data, request_id, deadline)
            return request_id
        outcome = self._ask(session, data, request_id, deadline)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def fetch(self, delay: float = 0.0) -> Iterator[Response]:
        """Yields the results of `encode(blocking=False)` as they come, until none is pending.

        An item that failed is None, with a warning. Raises TimeoutError when no result came for `timeout` ms.
        """
        time.sleep(delay)
        for outcome in self._outcomes(self._session, None):
            yield _response(outcome)

    def fetch_all(self, sort: bool = True, concat: bool = False,
                  parse_id_func: Optional[Callable[[Response], Any]] = None, return_id: bool = False) -> Any:
        """Returns all results of `encode(blocking=False)` in the order of their ids, or None if none is pending.

        Ids sort as numbers, or by what `parse_id_func` makes of a Response. An item that failed is None, with a
        warning; `concat`, which joins the results, raises its error. `return_id` returns Responses.
        """
        if concat and return_id:
            raise ValueError("concat and return_id exclude each other")
        session = self._session
        with session.changed:
            if not session.pending and not session.arrived:
                return None
        outcomes: List[_Outcome] = []
        try:
            outcomes.extend(self._outcomes(session, None))
        except BaseException:
            with session.changed:
                session.arrived.extendleft(reversed(outcomes))
            raise
        if sort:
            key = parse_id_func or _number_of
            outcomes.sort(key=lambda outcome: key(Response(outcome.id, outcome.value)))
        if concat:
            return self._concat(outcomes)
        responses = [_response(outcome) for outcome in outcomes]
        return responses if return_id else [response.embedding for response in responses]

    def encode_async(self, generator: Iterable[Any], max_num_batch: Optional[int] = None,
                     delay: float = 0.1) -> Iterator[Response]:
        """Yields results while a thread sends what the generator yields, at most `max_num_batch` of it.

        An item that failed is None, with a warning. What the generator raises is raised after the last result.
        """
        session, sending = self._session, _Sending()
        # 0 does not mean unlimited.
        items = itertools.islice(generator, max_num_batch or None)
        threading.Thread(target=self._send_all, args=(session, sending, items), daemon=True).start()
        try:
            time.sleep(delay)
            for outcome in self._outcomes(session, sending):
                yield _response(outcome)
        finally:
            with session.changed:
                sending.is_stopped = True
                session.changed.notify_all()
        if sending.error is not None:
            raise sending.error

    def close(self) -> None:
        """Closes the connections; calls that wait in other threads fail."""
        self._session.http.close()

    def __enter__(self) -> "WKRClient":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def _session(self) -> _Session:
        if self.__session.process != os.getpid():
            self.__session = _Session(self._address, self._token)
        return self.__session

    def _deadline(self) -> Deadline:
        return Deadline(self.timeout, self.__session.http.url)

    def _check(self, check_version: bool, show_server_config: bool) -> None:
        status = self.server_status
        # A model takes what it is sent, and has no protocol.
        theirs = _protocol(status.get("protocol", self.protocol))
        if theirs != self.protocol:
            raise AttributeError(f'the service speaks the protocol {theirs!r:.40}, this client "{self.protocol}"')
        if check_version and status.get("wkr_protocol") != PROTOCOL:
            raise AttributeError(
                f"the service (version {status.get('server_version')!r:.40}) has version "
                f"{status.get('wkr_protocol')!r:.40} of the frames, this client (version {__version__}) version "
                f"{PROTOCOL}: install matching versions, or try check_version=False")
        if show_server_config:
            print("server config:")
            for key, value in status.items():
                print(f"{key!s:>30}\t=\t{value!s:<30}")

    def _ask(self, session: _Session, data: Any, request_id: str, deadline: Deadline) -> _Outcome:
        marked = request_id + session.mark
        headers = {"Content-Type": _MEDIA_TYPE, "Accept": _MEDIA_TYPE}
        answer = self._refusable(session, self._frame(data, marked), headers, deadline)
        header, blocks = self._read_frame(answer, "encoded")
        if header.get("id") != marked:
            raise _malformed("the answer is that of another request")
        reader = values.ValueReader(blocks, _open_image)
        try:
            outcome = _read_outcome(request_id, header.get("outcome"), reader)
            if outcome.error is None:
                reader.end()
        except frames.ProtocolError as error:
            raise _malformed(str(error)) from error
        return outcome

    def _refusable(self, session: _Session, frame: Any, headers: Dict[str, str], deadline: Deadline) -> Answer:
        return _accepted(session.http.request("POST", "/encode", deadline, frame, headers), 200)

    def _send(self, session: _Session, data: Any, request_id: str, deadline: Deadline) -> None:
        marked = request_id + session.mark
        frame = self._frame(data, marked)
        with session.changed:
            if marked in session.pending:
                raise ValueError(f"target_request_id: {request_id} is pending")
            session.pending[marked] = request_id
        try:
            self._post(session, frame, deadline)
        except BaseException:
            with session.changed:
                session.pending.pop(marked, None)
                session.changed.notify_all()
            raise
        with session.changed:
            # Its result may have come before.
            if marked in session.pending:
                session.accepted.add(marked)
            session.changed.notify_all()

    def _post(self, session: _Session, frame: Any, deadline: Deadline) -> None:
        headers = {"Content-Type": _MEDIA_TYPE, "Accept": _MEDIA_TYPE, "Prefer": "respond-async"}
        seconds, longest = _FULL_SECONDS
        while True:
            try:
                _accepted(session.http.request("POST", "/encode", deadline, frame, headers), 202)
                return
            except WKRError as error:
                if error.status != 429:
                    raise
                try:
                    deadline.pause(seconds)
                    deadline.remaining()
                except TimeoutError:
                    raise error from None
            seconds = min(seconds * 2, longest)

    def _send_all(self, session: _Session, sending: _Sending, items: Iterator[Any]) -> None:
        try:
            while True:
                with session.changed:
                    session.changed.wait_for(
                        lambda: sending.is_stopped or len(session.pending) + len(session.arrived) < _AHEAD)
                if sending.is_stopped:
                    return
                data = next(items, _END)
                if data is _END:
                    return
                self._send_one(session, data)
        except BaseException as error:
            sending.error = error
        finally:
            with session.changed:
                sending.is_done = True
                session.changed.notify_all()

    def _send_one(self, session: _Session, data: Any) -> None:
        request_id = _next_id(session, None)
        try:
            self._send(session, data, request_id, self._deadline())
        except (TypeError, WKRError) as error:
            if isinstance(error, WKRError) and error.status not in _ITEM_STATUSES:
                raise
            with session.changed:
                session.arrived.append(_Outcome(request_id, None, error))
                session.changed.notify_all()

    def _outcomes(self, session: _Session, sending: Optional[_Sending]) -> Iterator[_Outcome]:
        deadline = self._deadline()
        while True:
            with session.changed:
                session.changed.wait_for(
                    lambda: session.arrived or session.accepted
                    or (not session.pending and (sending is None or sending.is_done)))
                outcome = session.arrived.popleft() if session.arrived else None
                if outcome is None and not session.accepted:
                    return
                session.changed.notify_all()
            if outcome is None:
                self._receive(session, deadline)
            else:
                yield outcome
                deadline = self._deadline()

    def _receive(self, session: _Session, deadline: Deadline) -> None:
        """Asks for results once, unless another thread has them by then."""
        remaining = deadline.remaining()
        if not session.asking.acquire(timeout=-1 if remaining is None else remaining):
            deadline.remaining()
            return
        try:
            with session.changed:
                if session.arrived or not session.accepted:
                    return
            begun, remaining = time.monotonic(), deadline.remaining()
            wait = int(_WAIT_SECONDS if remaining is None else min(_WAIT_SECONDS, remaining))
            path = f"/results/{self.identity}?after={session.cursor}&wait={wait}"
            answer = session.http.request("GET", path, deadline, headers={"Accept": _MEDIA_TYPE})
            cursor, outcomes = self._read_results(session, _accepted(answer, 200))
            has_more = cursor > session.cursor
            with session.changed:
                session.cursor = cursor
                for marked, outcome in outcomes.items():
                    session.accepted.discard(marked)
                    if session.pending.pop(marked, None) is not None:
                        session.arrived.append(outcome)
                session.changed.notify_all()
            elapsed = time.monotonic() - begun
            if not has_more and elapsed < _LOOK_SECONDS:
                deadline.pause(_LOOK_SECONDS - elapsed)
        finally:
            session.asking.release()

    def _read_results(self, session: _Session, answer: Answer) -> Tuple[int, Dict[str, _Outcome]]:
        """The new cursor, and this client's outcomes by their marked ids in the order in which they came."""
        header, blocks = self._read_frame(answer, "results")
        cursor: Any = header.get("cursor")
        results = header.get("results")
        if not frames.is_count(cursor) or cursor < session.cursor or not isinstance(results, list):
            raise _malformed("cursor or results is wrong")
        reader = values.ValueReader(blocks, _open_image)
        outcomes: Dict[str, _Outcome] = {}
        try:
            for result in results:
                marked = result.get("id") if isinstance(result, dict) else None
                if not isinstance(marked, str):
                    raise _malformed("a result has no id")
                # Those of other clients with this identity stay unread.
                request_id = session.pending.get(marked)
                if request_id is not None and marked not in outcomes:
                    outcomes[marked] = _read_outcome(request_id, result.get("outcome"), reader)
        except frames.ProtocolError as error:
            raise _malformed(str(error)) from error
        return int(cursor), outcomes

    def _frame(self, data: Any, marked: str) -> memoryview:
        if self.protocol == "npy" and not isinstance(data, numpy.ndarray):
            raise TypeError(f"data: the protocol npy sends an ndarray, not a {type(data).__name__}")
        writer = values.ValueWriter()
        value = writer.write(data, "data")
        size = sum(len(block) for block in writer.blocks)
        sink = io.BytesIO()
        if size <= MAX_BYTES:
            header = {"type": "encode", "identity": self.identity, "id": marked, "value": value}
            frames.write_frame(sink, header, writer.blocks)
            size = sink.tell()
        if size > MAX_BYTES:
            raise WKRError("too_large", f"data: {size} bytes are over the limit of {MAX_BYTES}", 413)
        return sink.getbuffer()

    def _read_frame(self, answer: Answer, kind: str) -> Tuple[Dict[str, Any], List[Any]]:
        if answer.media_type != _MEDIA_TYPE:
            raise _malformed(
                f"expected {_MEDIA_TYPE}, not {answer.media_type:.80}: is it the url of a worker's service?")
        stream = io.BytesIO(answer.body)
        try:
            frame = frames.FrameReader(stream).read()
        except frames.ProtocolError as error:
            raise _malformed(str(error)) from error
        if frame is None or frame[0].get("type") != kind or stream.read(1):
            raise _malformed(f"expected one frame of the type {kind}")
        return frame[0], frame[1]

    def _json(self, answer: Answer) -> Dict[str, Any]:
        try:
            value = frames.parse_json(answer.body, "answer")
        except frames.ProtocolError as error:
            raise _malformed(str(error)) from error
        if not isinstance(value, dict):
            raise _malformed("expected a JSON object")
        return value

    def _concat(self, outcomes: List[_Outcome]) -> Any:
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        results = [outcome.value for outcome in outcomes]
        if self.protocol == "npy":
            return numpy.concatenate(results, axis=0)
        return [row for result in results for row in result]


class ConcurrentWKRClient(WKRClient):
    """A client for at most `max_concurrency` calls of `encode` at once.

    A call above it waits for a place `retry` times `retry_gap` seconds, and so often repeats a request that the service
    refused because it was busy (429, 503). Other requests are never sent again.
    """

    def __init__(self, max_concurrency: int = 10, retry: int = 0, retry_gap: float = 0.05, **kw: Any) -> None:
        if not 1 <= max_concurrency <= 1000 or retry < 0 or retry_gap < 0:
            raise ValueError("expected max_concurrency from 1 to 1000, and retry and retry_gap of at least 0")
        self.max_concurrency, self.retry, self.retry_gap = max_concurrency, retry, retry_gap
        self._places = threading.BoundedSemaphore(max_concurrency)
        super().__init__(**kw)

    def encode(self, data: Any, blocking: bool = True, target_request_id: Any = None) -> Any:
        if not self._places.acquire(timeout=self.retry * self.retry_gap):
            raise RuntimeError("Too many concurrent connections! Increase max_concurrency, "
                               f"which is {self.max_concurrency}, or retry, which is {self.retry}")
        try:
            return super().encode(data, blocking, target_request_id)
        finally:
            self._places.release()

    def _refusable(self, session: _Session, frame: Any, headers: Dict[str, str], deadline: Deadline) -> Answer:
        for _ in range(self.retry):
            try:
                return super()._refusable(session, frame, headers, deadline)
            except WKRError as error:
                if error.status not in (429, 503):
                    raise
            deadline.pause(self.retry_gap)
        return super()._refusable(session, frame, headers, deadline)


def _protocol(name: Any) -> Any:
    return "npy" if name == "numpy" else name


def _identity(identity: Any) -> str:
    if identity is None:
        return str(uuid.uuid4())
    text = identity.decode("ascii", "replace") if isinstance(identity, bytes) else str(identity)
    if not _NAME.fullmatch(text):
        raise ValueError("identity: expected 1 to 64 letters, digits and . _ -")
    return text


def _host(ip: str) -> str:
    # The addresses of all interfaces, which a service listens on, mean this machine.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}.get(ip, ip)
    return f"[{host}]" if ":" in host else host


def _bearer(token: Optional[str]) -> Optional[str]:
    token = token or os.environ.get("WKR_TOKEN") or None
    if token is not None and not (16 <= len(token) <= 512 and _TOKEN.fullmatch(token)):
        raise ValueError("token: expected 16 to 512 letters, digits and - . _ ~ + /")
    return token


def _next_id(session: _Session, target_request_id: Any) -> str:
    with session.changed:
        session.count += 1
        request_id = str(session.count if target_request_id is None else target_request_id)
    if not _ID.fullmatch(request_id):
        raise ValueError("target_request_id: expected 1 to 54 letters, digits and . _ -")
    return request_id


def _number_of(response: Response) -> Tuple[int, int, str]:
    is_number = response.id.isascii() and response.id.isdigit()
    return (0, int(response.id), "") if is_number else (1, 0, response.id)


def _response(outcome: _Outcome) -> Response:
    if outcome.error is not None:
        warnings.warn(f"the item {outcome.id} failed: {outcome.error}", stacklevel=3)
    return Response(outcome.id, outcome.value)


def _accepted(answer: Answer, status: int) -> Answer:
    if answer.status == status:
        return answer
    if 200 <= answer.status < 300:
        raise _malformed(f"the service answered {answer.status} instead of {status}")
    raise error_of(answer)


def _read_outcome(request_id: str, outcome: Any, reader: Any) -> _Outcome:
    if not isinstance(outcome, dict) or len(outcome) != 1:
        raise frames.ProtocolError("malformed outcome")
    if "value" in outcome:
        try:
            return _Outcome(request_id, reader.read(outcome["value"]), None)
        except WKRError as unreadable:
            # An image that this machine cannot read must not cost other results.
            return _Outcome(request_id, None, unreadable)
    error = outcome.get("error")
    code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
    if not isinstance(code, str) or not isinstance(message, str):
        raise frames.ProtocolError("malformed outcome")
    return _Outcome(request_id, None, WKRError(code[:64], message[:4096]))


def _open_image(data: bytes) -> Any:
    """A Pillow image, or the bytes where Pillow is not installed."""
    try:
        from PIL import Image  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return data
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
        if image.width * image.height <= _PIXELS:
            image.load()
            return image
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _malformed(f"an image cannot be read: {error}") from error
    raise WKRError("too_large", f"an image of {image.width} x {image.height} is over the limit of {_PIXELS} pixels")


def _malformed(problem: str) -> WKRError:
    return WKRError("malformed_answer", problem)
