"""The names of the former Python client (0.11), over HTTPS, SQS, or Redis as before.

`zoo.serving.client` and `bigdl.serving.client` have these names. What differs from 0.11 is what was wrong there: a
record that the queue does not take raises, nothing is printed, and time limits hold.
"""
from __future__ import annotations

import base64
import json
import os
import time
import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, TypeVar, Union

import numpy

from ._api import check_timeout, deadline_of
from ._arrow import arrays_of, arrow_of, modern
from ._errors import ServingError, Unfetched, bad_config, bad_request
from ._inputs import InOrder, check_uri, dump
from ._redis import open_redis, within
from ._results import Result, inside, prediction_of
from .client import Client

RESULT_PREFIX = "cluster-serving_"
_T = TypeVar("_T")


class Answer(str):
    """The text of a prediction as 0.11 returned it, and the response that the guide prints: `text` is its JSON."""

    status_code = 200
    text: str

    # It is copied with one argument.
    def __new__(cls, value: str, text: str = "") -> Answer:
        answer = super().__new__(cls, value)
        answer.text = text
        return answer

    def json(self) -> Any:
        """The JSON of the response."""
        return json.loads(self.text)


class API:
    """The options of both queues: where the service is.

    `host` and `port` are those of Redis. `url` is the HTTPS API, by default CLUSTER_SERVING_URL if neither host nor
    port is given, and `sqs` the url of the queue. With none of these it is the Redis at localhost:6379. Other options
    (`auth`, `token` and so on) are those of `Client`. `timeout` is in seconds, for a call.
    """

    def __init__(self, host: Optional[str] = None, port: Union[int, str, None] = None, name: str = "serving_stream",
                 url: Optional[str] = None, sqs: Optional[str] = None, timeout: float = 30.0, **options: Any) -> None:
        if (url or sqs) and (host or port):
            raise bad_config("host and port are those of Redis: give these, or url= and sqs=")
        if not sqs and not host and not port:
            url = url or os.environ.get("CLUSTER_SERVING_URL") or None
        self.name = name
        self.host = host or "localhost"
        self.port = port or "6379"
        self.timeout = check_timeout(timeout)
        # By that name every service was meant.
        self._job = None if name == "serving_stream" else name
        self.client = Client(url, sqs=sqs, name=self._job, timeout=timeout, **options) if url or sqs else None
        if self.client is None and options:
            raise bad_config(f"{', '.join(options)}: for url= and sqs=, not for Redis")
        self._redis: Any = None

    @property
    def db(self) -> Any:
        """The connection to Redis, opened when it is first needed. Needs the extra zoo."""
        if self.client is not None:
            raise bad_config("this queue does not use Redis")
        if self._redis is None:
            self._redis = open_redis(self.host, int(self.port), self.timeout)
        return self._redis

    def _ask(self, call: Callable[[Any], _T], seconds: Optional[float] = None) -> _T:
        where = f"Redis at {self.host}:{self.port}"
        deadline = deadline_of(self.timeout if seconds is None else seconds, where)
        db = self.db
        return within(deadline, where, lambda: call(db))


class InputQueue(API):
    """Sends records: `InputQueue(host, port)` to a Redis stream as before, `InputQueue(url=…)` over HTTPS.

    `frontend_url` is the address that `predict` asks; without host and port `enqueue` does, too. `sync` is accepted.
    """

    def __init__(self, host: Optional[str] = None, port: Union[int, str, None] = None, sync: bool = True,
                 frontend_url: Optional[str] = None, name: str = "serving_stream", url: Optional[str] = None,
                 sqs: Optional[str] = None, **options: Any) -> None:
        if host is not None and host.startswith(("http://", "https://")):
            # The first argument in 0.11.
            host, frontend_url = None, host
        if frontend_url and not host and not port:
            url = url or frontend_url
        super().__init__(host, port, name, url, sqs, **options)
        self.frontend_url = frontend_url
        self.input_threshold = 0.6
        self._frontend = Client(frontend_url, name=self._job) if frontend_url and self.client is None else self.client
        self._output = OutputQueue(host, port, name, timeout=self.timeout) if self.client is None else None

    def enqueue(self, uri: str, **data: Any) -> None:
        """Returns when the queue has the record.

        Over Redis: an ndarray (as float32), a list of texts, the path of an image, {"path"} or {"b64"}, and a sparse
        tensor as a list of three ndarrays (indices, values, shape); otherwise everything that `Client.enqueue` takes,
        too. Raises ServingError (queue_unavailable, bad_request); it was lost in 0.11.
        """
        self._enqueue(uri, data)

    def enqueue_tensor(self, uri: str, data: Any) -> None:
        """Enqueues an ndarray, or a list of them as inputs in the model's order. Use `enqueue`."""
        arrays = [data] if isinstance(data, numpy.ndarray) else data
        if not isinstance(arrays, list) or not all(isinstance(each, numpy.ndarray) for each in arrays):
            raise bad_request("expected an ndarray, or a list of them")
        self._enqueue(uri, {f"{uri}_{i}" if i else uri: each for i, each in enumerate(arrays)})

    def predict(self, request_data: Any, timeout: float = 5) -> Any:
        """Returns the answer to one record, within `timeout` seconds.

        With an HTTPS address, `request_data` is JSON, `{"instances": […]}`, and the answer is the text between
        `{value=` and `}`, an `Answer`. Otherwise it is that JSON, a dict of inputs, or an ndarray; the answer is that of `query`, and
        "[]" when there is none in time.
        """
        end = time.monotonic() + check_timeout(timeout)
        if self._frontend is not None and self._frontend._api is not None:
            body = request_data if isinstance(request_data, str) else json.dumps(request_data)
            found, answer = self._frontend._predict_text(body.encode("utf-8"), timeout)
            return Answer(inside(found), answer)
        if self._output is None:
            raise bad_config("predict needs url=, or host and port")
        uri = str(uuid.uuid4())
        self._enqueue(uri, _inputs_of(request_data), timeout)
        pause = 0.001
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return "[]"
            try:
                answer = self._output.read(uri, True, left)
            except ServingError as error:
                if error.code != "timeout":
                    raise
                return "[]"
            if not isinstance(answer, str) or answer != "[]":
                return answer
            time.sleep(min(pause, left))
            pause = min(pause + 0.001, 0.25)

    def data_to_b64(self, **data: Any) -> str:
        """Returns base64 of an Arrow stream with one column for each input, as 0.11 wrote it. Needs the extra zoo."""
        return arrow_of(data)

    @staticmethod
    def base64_encode_image(img: bytes) -> str:
        """Returns base64."""
        return base64.b64encode(img).decode("utf-8")

    def _enqueue(self, uri: str, data: Mapping[str, Any], seconds: Optional[float] = None) -> None:
        if self.client is not None:
            self.client.enqueue(uri, InOrder((name, modern(value)) for name, value in data.items()))
            return
        fields = {"uri": check_uri(uri), "data": arrow_of(data)}

        def add(db: Any) -> None:
            memory = db.info("memory")
            if memory.get("maxmemory") and memory["used_memory"] >= memory["maxmemory"] * self.input_threshold:
                raise ServingError("queue_unavailable", f"Redis is {self.input_threshold:.0%} full: wait until records "
                                   "are processed, or delete some")
            db.xadd(self.name, fields)

        try:
            self._ask(add, seconds)
        except ServingError as error:
            raise error.with_uri(uri) from error


class OutputQueue(API):
    """Reads results: `OutputQueue(host, port)` from Redis as before, `OutputQueue(url=…)` over HTTPS.

    A result is an ndarray, or a list of them for a model with several outputs; the text of a filter; "NaN" for a record
    that failed; "[]" where there is none. Over Redis arrays are float32.
    """

    def query(self, uri: str, delete: bool = False) -> Any:
        """Returns the result under the uri, which stays unless `delete` is true."""
        if self.client is not None:
            try:
                return _former((self.client.query_and_delete if delete else self.client.query)(uri))
            except ServingError as error:
                return _nan_of(error)
        return self.read(uri, delete)

    def read(self, uri: str, delete: bool, seconds: Optional[float] = None) -> Any:
        """As `query`, from Redis, within `seconds`."""
        key = f"{RESULT_PREFIX}{self.name}:{uri}"

        found: List[Any] = []

        def ask(db: Any) -> None:
            value = db.hget(key, "value")
            # A result that cannot be read is not deleted.
            found.append(_decode(value))
            if value is not None and delete:
                db.delete(key)

        try:
            self._ask(ask, seconds)
        except ServingError:
            # It may be deleted: it would be lost if it were not used.
            if not found:
                raise
        return found[0]

    def query_and_delete(self, uri: str) -> Any:
        """Returns the result under the uri, and deletes it."""
        return self.query(uri, True)

    def dequeue(self) -> Dict[str, Any]:
        """Takes all results of the job, also those of other programs, by uri.

        One that cannot be read, or a large one that cannot be fetched, stays. When the service or Redis becomes
        unavailable meanwhile, or the time is up, returns what was taken. Raises ServingError when that is nothing.
        """
        taken: Dict[str, Any] = {}
        try:
            if self.client is not None:
                _take_former(self.client, taken)
            else:
                self._ask(lambda db: self._take(db, taken))
        except ServingError:
            # These are no longer in the service, so they must be returned.
            if not taken:
                raise
        return taken

    def _take(self, db: Any, taken: Dict[str, Any]) -> None:
        prefix = f"{RESULT_PREFIX}{self.name}:"
        unreadable: Optional[ServingError] = None
        # KEYS would hold up Redis.
        for key in db.scan_iter(match=f"{_literal(prefix)}*", count=1000):
            value = db.hget(key, "value")
            if value is None:
                continue
            try:
                found = _decode(value)
            except ServingError as error:
                unreadable = error
                continue
            # Here before it is deleted, and not after: the answer may be lost.
            taken[key.decode("utf-8")[len(prefix):]] = found
            db.delete(key)
        if unreadable is not None:
            raise unreadable

    def get_ndarray_from_b64(self, b64str: Any) -> Any:
        """Returns the arrays of an Arrow stream in base64 (needs the extra zoo), or what `dequeue` has made arrays of."""
        return arrays_of(b64str) if isinstance(b64str, str) else b64str


def http_json_to_ndarray(json_str: str) -> Any:
    """Returns the array of the first prediction in the JSON of `POST /predict`, `{value=…}` or as 0.10 wrote it."""
    text = json.loads(json_str)["predictions"][0]
    if not text.startswith("{value="):
        text = "{value=" + json.loads(text)["value"] + "}"
    return prediction_of(text, "", None).output


def http_response_to_ndarray(response: Any) -> Any:
    """Returns the array of the first prediction in an answer of httpx or requests. Raises ServingError for an error."""
    if response.status_code != 200:
        raise ServingError("bad_request" if response.status_code < 500 else "internal",
                           f"the service answered {response.status_code}: {response.text[:500]}")
    return http_json_to_ndarray(response.text)


def _inputs_of(request_data: Any) -> Dict[str, Any]:
    """The inputs of JSON, of a dict, or of one value, which is then called t."""
    if isinstance(request_data, dict) and "instances" not in request_data:
        return request_data
    try:
        parsed = json.loads(request_data) if isinstance(request_data, str) else request_data
        instance = parsed["instances"][0]
        return {name: numpy.array(value) for name, value in instance.items()}
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return {"t": request_data}


def _decode(value: Any) -> Any:
    if value is None:
        return "[]"
    text = value.decode("utf-8", "replace")
    # Filters return text such as "[...]"; base64 has no bracket.
    return text if text == "NaN" or text.startswith("[") else arrays_of(text)


def _former(result: Optional[Result]) -> Any:
    if result is None:
        return "[]"
    if result.outputs:
        arrays = list(result.outputs.values())
        return arrays[0] if len(arrays) == 1 else arrays
    return dump(result.value).decode("utf-8")


def _nan_of(error: ServingError) -> str:
    """Returns a record's own failure; raises other errors."""
    if error.uri is None or isinstance(error, Unfetched):
        raise error
    return "NaN"


def _take_former(client: Client, taken: Dict[str, Any]) -> None:
    unfetched: Optional[Unfetched] = None
    for uri, found in client.dequeue().items():
        if isinstance(found, Unfetched):
            unfetched = found
        else:
            taken[uri] = _nan_of(found) if isinstance(found, ServingError) else _former(found)
    if unfetched is not None:
        raise unfetched


def _literal(text: str) -> str:
    """A pattern of Redis that matches the text itself."""
    return "".join(f"\\{each}" if each in "*?[]^\\-" else each for each in text)
