"""Requests to the HTTPS API: signed, tried again where that is safe, and each within its time and size.

What is safe to repeat is a read, an enqueue with its identity, and what certainly did nothing. A result that was taken
and whose answer was lost cannot be taken again.
"""
from __future__ import annotations

import contextvars
import hashlib
import math
import random
import ssl
import threading
import time
import urllib.parse
import urllib.request
from typing import Any, Dict, Mapping, Optional, Tuple

from wkr_serving.client.deadline import Deadline
from wkr_serving.client.transport import Answer, Http, WKRError, object_of

from ._access import Access
from ._errors import ServingError, bad_config, bad_request, is_code
from ._results import parse
from ._sigv4 import quote

# Limit for an answer. An endless one is read this far.
MAX_BYTES = 64 * 1024 * 1024
# Limit for a large result, which states its size.
_LARGE_BYTES = 256 * 1024 * 1024
_UPLOAD_ANSWER_BYTES = 65_536
_MAX_TIMEOUT = 24 * 60 * 60.0
_TRIES = 3
_FIRST_PAUSE = 0.2
# A service that asks for a longer pause is not waited for: its error says when to try again.
_LONGEST_PAUSE = 2.0
_REDIRECTS = (301, 302, 303, 307, 308)
_OF_STATUS = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 413: "too_large", 429: "rate_limited",
              503: "queue_unavailable", 504: "timeout"}
_WHO_CALLS = ("say who calls, with AWS credentials that may execute-api:Invoke (auth iam), a token (auth jwt) "
              "or an API key")


class Call:
    """A call that another thread may cancel: since when it waits (None: its limits count from now), and its deadline."""

    def __init__(self) -> None:
        self.begun: Optional[float] = time.monotonic()
        self._lock = threading.Lock()
        self._deadline: Optional[Deadline] = None
        self._is_cancelled = False

    def use(self, deadline: Deadline) -> None:
        """The deadline that `cancel` ends from now on."""
        with self._lock:
            self._deadline = deadline
            if self._is_cancelled:
                deadline.cancel()

    def cancel(self) -> None:
        """Ends the call by closing its connection."""
        with self._lock:
            self._is_cancelled = True
            if self._deadline is not None:
                self._deadline.cancel()


# Set by the asyncio client around a call.
CALL: "contextvars.ContextVar[Optional[Call]]" = contextvars.ContextVar("cluster_serving_call", default=None)


def check_timeout(seconds: Any) -> float:
    """Returns a time limit in seconds, or raises bad_request."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= _MAX_TIMEOUT:
        raise bad_request(f"timeout: expected seconds above 0 and up to {_MAX_TIMEOUT:.0f}, got {seconds!r:.40}")
    return float(seconds)


def deadline_of(seconds: Any, where: str) -> Deadline:
    """The end of a call that begins now, or began when the asyncio client was asked for it. Raises bad_request."""
    call = CALL.get()
    deadline = Deadline(check_timeout(seconds) * 1000, where, None if call is None else call.begun)
    if call is not None:
        call.use(deadline)
    return deadline


class Api:
    """The API at `url`. Threads may share it."""

    def __init__(self, url: str, access: Access, ssl_context: Optional[ssl.SSLContext] = None,
                 max_bytes: int = MAX_BYTES) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            # As it is sent, so that it is what is signed.
            path = urllib.parse.quote(urllib.parse.unquote(parts.path), safe="/").rstrip("/")
            self._http = Http(parts._replace(path=path).geturl(), None, max_bytes, ssl_context, _proxy_of(url))
        except ValueError as error:
            raise bad_config(str(error)) from error
        self.url = self._http.url
        self._prefix = path
        self._ssl_context = ssl_context
        self._access = access

    def json(self, method: str, path: str, deadline: Deadline, body: Optional[bytes] = None,
             headers: Optional[Mapping[str, str]] = None) -> Any:
        """Returns the JSON of an answer. Raises the service's error; timeout; queue_unavailable; internal."""
        return parse(self.answer(method, path, deadline, body, headers).body, "the answer")

    def answer(self, method: str, path: str, deadline: Deadline, body: Optional[bytes] = None,
               headers: Optional[Mapping[str, str]] = None) -> Answer:
        """As `json`, with the headers of the answer. A 303, which leads to a large result, is followed once."""
        try:
            answer = self._tried(method, path, deadline, body, headers or {})
            if answer.status == 303 and method != "POST":
                answer = self._large(answer, method, path, deadline)
        except TimeoutError as error:
            raise ServingError("timeout", f"{self.url}: {error}") from error
        except WKRError as error:
            raise _network_error(error) from error
        if 200 <= answer.status < 300:
            return answer
        if answer.status in _REDIRECTS:
            target = answer.headers.get("Location", "another address")
            raise bad_config(f"{self.url} redirects to {target:.200}: is it the url of the API?")
        raise self._error(answer, path)

    def close(self) -> None:
        """Closes the connections. Calls of other threads fail."""
        self._http.close()

    def _tried(self, method: str, path: str, deadline: Deadline, body: Optional[bytes],
               headers: Mapping[str, str]) -> Answer:
        is_repeatable = self._is_repeatable(method, headers)
        for i in range(_TRIES):
            asked = 0.0
            try:
                answer = self._once(method, path, deadline, body, headers)
                asked = _retry_after(answer) or 0.0
                if i + 1 == _TRIES or not self._may_pass(answer, is_repeatable) or asked > _LONGEST_PAUSE:
                    return answer
                failure = None
            except WKRError as error:
                may_pass = error.code == "unreachable" or (is_repeatable and error.code == "connection_lost")
                if i + 1 == _TRIES or not may_pass:
                    raise
                failure = error
            # Clients that failed together do not come back together.
            pause = asked + _FIRST_PAUSE * 2**i * random.random()
            remaining = deadline.remaining()
            if remaining is not None and remaining <= pause:
                if failure:
                    raise failure
                return answer
            deadline.pause(pause)
        raise AssertionError("unreachable")

    def _is_repeatable(self, method: str, headers: Mapping[str, str]) -> bool:
        return method == "GET" or "Idempotency-Key" in headers

    def _may_pass(self, answer: Answer, is_repeatable: bool) -> bool:
        return answer.status == 429 or (is_repeatable and answer.status in (502, 503))

    def _once(self, method: str, path: str, deadline: Deadline, body: Optional[bytes],
              headers: Mapping[str, str]) -> Answer:
        sent = {"Host": self._http.host, **headers}
        target = self._prefix + path
        for may_correct in (True, False):
            added = self._access.headers(method, target, sent, body or b"", deadline)
            answer = self._http.request(method, path, deadline, body, {**sent, **added}, again=False)
            if answer.status != 403 or not may_correct or not self._access.corrects_clock(answer.headers.get("Date")):
                break
        return answer

    def _large(self, answer: Answer, method: str, path: str, deadline: Deadline) -> Answer:
        """Reads a large result where the service says it is. What takes it deletes it when it is here, and not before."""
        large = object_of(answer).get("large")
        pointer: Dict[str, Any] = large if isinstance(large, dict) else {}
        size = pointer.get("bytes")
        if isinstance(size, int) and size > _LARGE_BYTES:
            raise ServingError("too_large", f"the result has {size} bytes, over the limit of {_LARGE_BYTES}")
        found = self._followed(answer, size if isinstance(size, int) else self._http.max_bytes, deadline)
        if "sha256" in pointer and hashlib.sha256(found.body).hexdigest() != pointer["sha256"]:
            raise ServingError("results_unavailable", f"{self.url} leads to something else than the result")
        if method == "DELETE" and isinstance(pointer.get("id"), str):
            try:
                deleted = self._tried("DELETE", f"{path}&fetched={quote(pointer['id'])}", deadline, None, {})
            except (WKRError, TimeoutError):
                # It may be deleted: it would be lost if it were not used.
                return found
            if deleted.status == 404:
                # Another client has it.
                return deleted
        return found

    def _followed(self, answer: Answer, max_bytes: int, deadline: Deadline) -> Answer:
        found, url = self._elsewhere("GET", answer.headers.get("Location", ""), deadline, max_bytes)
        if found.status != 200:
            raise ServingError("results_unavailable", f"{url}, where the large result is, answered {found.status}")
        return found

    def upload(self, location: str, body: bytes, headers: Mapping[str, str], deadline: Deadline) -> None:
        """Puts a body where the service says. Raises queue_unavailable; timeout; bad_config."""
        for is_last in (False, True):
            try:
                answer, url = self._elsewhere("PUT", location, deadline, _UPLOAD_ANSWER_BYTES, body, headers)
                if 200 <= answer.status < 300:
                    return
                if is_last or answer.status not in (429, 500, 502, 503):
                    text = f"the body cannot be uploaded: {url} answered {answer.status}"
                    raise ServingError("queue_unavailable", text)
            except TimeoutError as error:
                raise ServingError("timeout", f"{self.url}: {error}") from error
            except WKRError as error:
                # The same bytes twice are one upload.
                if is_last or error.code not in ("unreachable", "connection_lost"):
                    raise _network_error(error) from error
            deadline.pause(_FIRST_PAUSE * random.random())

    def _elsewhere(self, method: str, location: str, deadline: Deadline, max_bytes: int, body: bytes = b"",
                   given: Optional[Mapping[str, str]] = None) -> Tuple[Answer, str]:
        """Another address is itself the permission to use it: nothing that says who calls is sent there."""
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(f"{self.url}/", location))
        if not parts.hostname or (parts.scheme != "https" and self.url.startswith("https:")):
            raise bad_config(f"{self.url} redirects to an address that is not https: is it the url of the API?")
        url = f"{parts.scheme}://{parts.netloc}"
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        try:
            there = Http(url, None, max_bytes, self._ssl_context, _proxy_of(url))
        except ValueError as error:
            raise bad_config(f"{self.url} redirects to no address: {error}") from error
        is_own = self.url == url or self.url.startswith(f"{url}/")
        headers = {"Host": there.host, **(given or {})}
        try:
            added = self._access.headers(method, path, headers, body, deadline) if is_own else {}
            return there.request(method, path, deadline, body or None, {**headers, **added}), url
        finally:
            there.close()

    def _error(self, answer: Answer, path: str) -> ServingError:
        body = object_of(answer)
        code = body.get("code")
        texts = [text for text in (body.get("error"), body.get("message")) if isinstance(text, str)]
        shown = texts[0][:4096] if texts else f"{self.url} answered {answer.status}"
        route = path.partition("?")[0]
        if not is_code(code):
            if answer.status == 404:
                return bad_config(f"{self.url} has no {route}: is it the url of the API?")
            code = _OF_STATUS.get(answer.status, "bad_request" if answer.status < 500 else "internal")
        if code == "unauthorized" and "error" not in body:
            # API Gateway says no more than Forbidden.
            shown = f"{shown} ({self.url}{route}): {_WHO_CALLS}"
        return ServingError(str(code), shown, retry_after=_retry_after(answer))


def _network_error(error: WKRError) -> ServingError:
    if error.code == "closed":
        return bad_request("this client was closed")
    codes = {"too_large": "too_large", "malformed_answer": "internal"}
    return ServingError(codes.get(error.code, "queue_unavailable"), error.message)


def _retry_after(answer: Answer) -> Optional[float]:
    try:
        seconds = float(answer.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _proxy_of(url: str) -> Optional[str]:
    """Returns the proxy of HTTPS_PROXY, unless NO_PROXY has the host. Plain http is for services nearby, and never goes
    through it.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" or urllib.request.proxy_bypass(f"{parts.hostname}:{parts.port or 443}"):
        return None
    return urllib.request.getproxies().get("https")
