"""The client over HTTPS, for programs with threads; `cluster_serving.AsyncClient` has the same calls for asyncio."""
from __future__ import annotations

import os
import re
import ssl
import threading
import time
import uuid
from collections import deque
from typing import (Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union,
                    overload)

from wkr_serving.client.deadline import Deadline

from ._access import Access
from ._api import CALL, Api, check_timeout, deadline_of
from ._errors import ServingError, Unfetched, bad_config, bad_request
from ._inputs import Input, check_uri, dump, instance_of, kind_of, record_of
from ._many import Record, Tally, Turns, in_order
from ._results import Enqueued, Model, Outcome, Result, job_of, model_of, parse, prediction_of, result_of
from ._sigv4 import Credentials, quote
from ._sqs import MESSAGES, Message, Sqs
from ._uploads import within_gateway

# Below the gateway's 30 s.
_WAIT_SECONDS = 20
# Between two looks at a service that does not wait.
_LOOK_SECONDS = 0.25
_IN_FLIGHT = 16
_IDENTITY = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TARGET = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_TOKEN = re.compile(r"[!-~]{1,2048}")
_KEY = re.compile(r"[!-~]{1,128}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
# Descriptions of models that are kept.
_MODELS = 64
# Seconds: the longest time that SQS keeps a message, and the longest that it delays one.
_EXPIRES_AFTER = 1_209_600
_DELAY = 900
_JSON = {"Content-Type": "application/json"}
_STATUSES = ("queued", "running", "succeeded", "failed", "expired", "cancelled", "unknown")

Uri = Union[str, Enqueued]


class Client:
    """A client of the service at `url`, by default the variable CLUSTER_SERVING_URL. Threads may share it.

    timeout      seconds of a call that does not say its own.
    auth         how requests say who calls: iam (signed with AWS credentials), jwt (`token`), api-key (`api_key`) or
                 none; by default CLUSTER_SERVING_AUTH, else what is given or in CLUSTER_SERVING_TOKEN or
                 CLUSTER_SERVING_API_KEY, else iam for an address of API Gateway if there are credentials, else none.
    region       of signatures, where the url does not say it; by default AWS_REGION.
    credentials  returns the AWS credentials; by default they are found as the AWS tools find them.
    ssl_context  by default that of the system, with SSL_CERT_FILE. HTTPS_PROXY and NO_PROXY hold.
    sqs          the url of the queue: `enqueue` then sends to SQS instead, signed with the AWS credentials.
    name         of the job, whose model says the names and dtypes of a prediction; by default the service is asked once.

    Every call ends within its `timeout` in seconds, and raises ServingError with `code`, `status`, `retryable` and
    `uri`. Codes of every call: timeout, queue_unavailable (no connection), unauthorized, rate_limited, too_large (an
    answer over 64 MiB), bad_config (not the url of the API).
    """

    def __init__(self, url: Optional[str] = None, *, timeout: float = 30.0, auth: Optional[str] = None,
                 token: Optional[str] = None, api_key: Optional[str] = None, region: Optional[str] = None,
                 credentials: Optional[Callable[[], Credentials]] = None, ssl_context: Optional[ssl.SSLContext] = None,
                 sqs: Optional[str] = None, name: Optional[str] = None) -> None:
        url = url or os.environ.get("CLUSTER_SERVING_URL")
        if not url and not sqs:
            raise bad_config("where is the service? Say it with url=, CLUSTER_SERVING_URL, or connect(stack=…)")
        self._timeout = check_timeout(timeout)
        self._name = name
        self._api = Api(url, Access(url, auth, token, api_key, region, credentials), ssl_context) if url else None
        self._sqs = Sqs(sqs, region, credentials, ssl_context) if sqs else None
        self._lock = threading.Lock()
        # The job that the service serves, when it has said so.
        self._job: Optional[str] = None
        # The service's description of the last version of its model, by version; None if it gives none.
        self._models: Dict[str, Optional[Model]] = {}
        self._asking = threading.Lock()
        # Taken from the service, but not yet given to the caller of `drain`: answers and outcomes.
        self._left: Deque[Any] = deque()

    @overload
    def predict(self, inputs: Mapping[str, Input], *, model: Optional[str] = None, canary_key: Optional[str] = None,
                timeout: Optional[float] = None) -> Result: ...

    @overload
    def predict(self, inputs: Sequence[Mapping[str, Input]], *, model: Optional[str] = None,
                canary_key: Optional[str] = None, timeout: Optional[float] = None) -> List[Result]: ...

    def predict(self, inputs: Any, *, model: Optional[str] = None, canary_key: Optional[str] = None,
                timeout: Optional[float] = None) -> Any:
        """Runs the model on the inputs of one record by name, or on a list of them, and returns a Result for each.

        An input is an array of the shape and dtype that the model has for one record; a number, nested lists, a text in
        a list; an image as bytes (JPEG, PNG, WebP, BMP, GIF, TIFF), a path or an open file, {"path"}, {"b64"}; a sparse
        tensor {"indices", "values", "shape"}; None, a missing value. Outputs have the model's dtypes where it says them
        (workers and filters do not). `model` names a further model of the job. While a canary takes a share of the requests, `canary_key` (1 to 128 characters of
        ASCII without spaces, such as the id of a user) decides which version answers. Raises bad_input for what does not fit the model; model_failed, model_unavailable. A
        prediction is sent again only where it certainly did nothing.
        """
        is_one = isinstance(inputs, Mapping)
        instances = [instance_of(inputs)] if is_one else [instance_of(each) for each in inputs]
        deadline = self._limit(timeout)
        texts, version = self._texts(dump({"instances": instances}), deadline, canary_key, model)
        if len(texts) != len(instances):
            raise ServingError("internal", f"{self._over_http.url} answered another number of predictions")
        described = self._model(version, deadline, model)
        results = [prediction_of(text, version, described) for text in texts]
        return results[0] if is_one else results

    def enqueue(self, uri: str, inputs: Mapping[str, Input], *, identity: Optional[str] = None,
                notify: Optional[str] = None, task_token: Optional[str] = None, canary_key: Optional[str] = None,
                expires_after: Optional[int] = None, delay_seconds: Optional[int] = None,
                priority: Optional[str] = None, model: Optional[str] = None,
                timeout: Optional[float] = None) -> Enqueued:
        """Returns when the queue has the record, whose result is then found under `uri`. Inputs are those of `predict`.

        A uri may be used again: the last one counts. `identity` (1 to 64 letters, digits, ".", "_", "-"; by default
        random) names this enqueue; give it when you try the same enqueue once more, which then makes no second result.
        `notify` names the target of the job's config.yaml that is notified when the record is done; `task_token` is the
        token of the task of Step Functions that it ends, for a target with `stepFunctions`. While a canary takes a share of
        the records, `canary_key` decides whether it takes this one, as for `predict`; by default its uri does.
        `expires_after` (1 to 1,209,600 seconds from now): a record that still waits then is not run, and fails with
        record_expired. `delay_seconds` (0 to 900): it does not run before. `priority="high"`: it does not wait behind the
        other records, for a job with `queue.highShare`. `model` names a further model of the job, which runs it.
        Raises queue_unavailable, too_large, bad_request; each with the uri.
        """
        record = Record(uri, inputs, identity, notify, task_token, canary_key, expires_after, delay_seconds, priority,
                        model)
        (outcome,) = self._enqueue_all([record], timeout)
        if isinstance(outcome, ServingError):
            raise outcome
        return outcome

    def enqueue_many(self, records: Iterable[Union[Record, Tuple[str, Mapping[str, Input]]]], *,
                     timeout: Optional[float] = None) -> List[Enqueued]:
        """Enqueues the records `(uri, inputs)`, `(uri, inputs, identity)` or `Record(uri, inputs, …)`, which has the options of
        `enqueue`, of any iterable: over HTTPS 16 at a time, to SQS in 16 calls of ten.

        Of several records under one uri the last one counts. The iterable is read as fast as the queue accepts. `timeout` is that of one call. Raises EnqueueError.
        """
        tally = Tally()
        turns = Turns().of(tally.batches(records, self._per_call))
        for outcomes in in_order(lambda turn: turn.run(lambda some: self._enqueue_all(some, timeout)), turns, _IN_FLIGHT):
            tally.add(outcomes)
        return tally.enqueued_or_raise()

    def query(self, uri: Uri, *, identity: Optional[str] = None, timeout: Optional[float] = None) -> Optional[Result]:
        """Returns the result, which stays; None when there is none, yet or any more.

        Given the return value of `enqueue` instead of the uri, or its identity, only the result of that enqueue. Raises
        the record's own error if it failed, with its uri; results_unavailable.
        """
        return self._ask("GET", uri, identity, self._limit(timeout))

    def query_and_delete(self, uri: Uri, *, identity: Optional[str] = None,
                         timeout: Optional[float] = None) -> Optional[Result]:
        """As `query`, but deletes the result, even that of a failure."""
        return self._ask("DELETE", uri, identity, self._limit(timeout))

    def wait(self, uri: Uri, *, identity: Optional[str] = None, timeout: Optional[float] = None) -> Result:
        """Returns the result as soon as there is one. The service waits, so this does not poll.

        Raises timeout when there is none in time; the record's own error if it failed; results_unavailable.
        """
        seconds = self._timeout if timeout is None else timeout
        deadline = self._limit(timeout)
        try:
            while True:
                asked = time.monotonic()
                # Not rounded up: the answer "not yet" is to arrive before the time is up.
                left = int(min(_WAIT_SECONDS, deadline.remaining() or 0.0))
                result = self._ask("GET", uri, identity, deadline, {"Prefer": f"wait={left}"})
                if result is not None:
                    return result
                # Some services do not wait.
                deadline.pause(max(0.0, _LOOK_SECONDS - (time.monotonic() - asked)))
        except (TimeoutError, ServingError) as error:
            if not deadline.is_over or (isinstance(error, ServingError) and (error.code != "timeout" or error.uri)):
                raise
            raise ServingError("timeout", f"no result after {seconds:g} s", named(uri, identity)[0]) from error

    def results(self, records: Iterable[Uri], *, take: bool = False,
                timeout: Optional[float] = None) -> Iterator[Outcome]:
        """Waits for records, which are uris or what `enqueue` returned, and yields an Outcome for each in their order.

        Nothing is asked before the iterator is. Results stay unless `take` is true: then each is deleted when it is
        here, and only where `records` are what `enqueue` returned, so that those of others stay. `timeout` is for all
        of them together; a record that has no result by then has the error timeout.
        """
        end = time.monotonic() + check_timeout(self._timeout if timeout is None else timeout)
        return in_order(lambda record: self._outcome(record, take, end), records, _IN_FLIGHT, may_cancel=True)

    def drain(self, *, timeout: Optional[float] = None) -> Iterator[Outcome]:
        """Takes all finished results of the job, also those of other programs, and yields them one by one.

        A yielded result is gone from the service; a large one that cannot be fetched is an error in its place and
        stays under its uri. The next `drain` of this client gives what an interrupted one left.
        `timeout` is for each question to the service. Raises results_unavailable.
        """
        return self._drained(lambda: self._limit(timeout))

    def dequeue(self, *, timeout: Optional[float] = None) -> Dict[str, Union[Result, ServingError]]:
        """As `drain`, by uri; failures are errors in their place.

        If the service becomes unavailable meanwhile, or the time is up, returns what was taken. Raises
        results_unavailable or timeout when that is nothing.
        """
        taken: Dict[str, Union[Result, ServingError]] = {}
        deadline = self._limit(timeout)
        try:
            for outcome in self._drained(lambda: deadline):
                taken[outcome.uri] = outcome.found
        except ServingError:
            # These are no longer in the service, so they must be returned.
            if not taken:
                raise
        return taken

    def status(self, uri: Uri, *, identity: Optional[str] = None, timeout: Optional[float] = None) -> str:
        """Returns the state of a record: queued, running, succeeded, failed, expired, cancelled or unknown."""
        name, wanted = named(uri, identity)
        answer = self._over_http.json("GET", f"/status?{_parameters(name, wanted)}", self._limit(timeout))
        status = answer.get("status") if isinstance(answer, dict) else None
        if status not in _STATUSES:
            raise ServingError("internal", f"{self._over_http.url}/status did not answer with a status", name)
        # Something between them may have dropped the parameter: the answer then belongs to any enqueue of the uri.
        return str(status) if answer.get("identity") == wanted else "unknown"

    def cancel(self, uri: Uri, *, timeout: Optional[float] = None) -> bool:
        """Cancels what was enqueued under the uri until now and has no result. Returns False when it is too late."""
        try:
            self._over_http.json("POST", f"/cancel?{_parameters(named(uri, None)[0], None)}", self._limit(timeout))
        except ServingError as error:
            if error.code == "conflict":
                return False
            raise
        return True

    def is_ready(self, *, timeout: Optional[float] = None) -> bool:
        """True if a prediction can work now: the service answers, has a model that serves, and can store results."""
        try:
            self._over_http.answer("GET", "/ready", self._limit(timeout))
        except ServingError as error:
            if error.status == 503:
                return False
            raise
        return True

    def close(self) -> None:
        """Closes the connections. Calls of other threads fail."""
        for each in (self._api, self._sqs):
            if each is not None:
                each.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def _over_http(self) -> Api:
        if self._api is None:
            raise bad_config("this needs the HTTPS API: url=, or CLUSTER_SERVING_URL")
        return self._api

    @property
    def _per_call(self) -> int:
        return 1 if self._sqs is None else MESSAGES

    def _predict_text(self, body: bytes, timeout: Optional[float] = None) -> Tuple[Any, str]:
        """The text `{value=…}` that answers the first instance of the JSON of `POST /predict`, and the whole answer."""
        texts, answer = self._answered(body, self._limit(timeout))
        return next(iter(texts), None), answer.body.decode("utf-8")

    def _texts(self, body: bytes, deadline: Deadline, canary_key: Optional[str] = None,
               model: Optional[str] = None) -> Tuple[List[Any], str]:
        """The texts `{value=…}` that answer the JSON of a prediction, and the version of the model."""
        texts, answer = self._answered(body, deadline, canary_key, model)
        return texts, str(answer.headers.get("Model-Version", ""))

    def _answered(self, body: bytes, deadline: Deadline, canary_key: Optional[str] = None,
                  model: Optional[str] = None) -> Tuple[List[Any], Any]:
        headers = {**_JSON, **_key_header(_checked_key(canary_key))}
        path = "/predict" + _query({"model": _checked_model(model)})
        body = within_gateway(self._over_http, body, deadline)
        answer = self._over_http.answer("POST", path, deadline, body, headers)
        parsed = parse(answer.body, "the answer")
        texts = parsed.get("predictions") if isinstance(parsed, dict) else None
        if not isinstance(texts, list):
            raise ServingError("internal", f"{self._over_http.url} answered without predictions")
        return texts, answer

    def _limit(self, timeout: Optional[float], where: Optional[str] = None) -> Deadline:
        return deadline_of(self._timeout if timeout is None else timeout, where or self._over_http.url)

    def _model(self, version: str, deadline: Deadline, name: Optional[str] = None) -> Optional[Model]:
        models = self._models
        if version not in models:
            # Threads that ask at the same time share the answer.
            try:
                is_first = self._asking.acquire(timeout=deadline.remaining() or -1)
            except TimeoutError:
                is_first = False
            if not is_first:
                raise ServingError("timeout", f"{self._over_http.url} did not describe its model in time")
            try:
                models = self._models
                if version not in models:
                    # A canary answers beside the version that serves, and further models beside the job's own.
                    last = list(models.items())[1 - _MODELS:]
                    models = self._models = dict([*last, (version, self._ask_model(version, deadline, name))])
            finally:
                self._asking.release()
        return models[version]

    def _ask_model(self, version: str, deadline: Deadline, name: Optional[str] = None) -> Optional[Model]:
        known = name or self._name or self._job
        try:
            job = known or job_of(self._over_http.json("GET", "/v2/models/stats", deadline))
            if job is None:
                return None
            metadata = self._over_http.json("GET", f"/v2/models/{quote(job)}", deadline)
            if not _describes(metadata, version):
                metadata = self._metadata_of(job, version, deadline)
        except ServingError as error:
            # For who may call /predict alone, and of a service without the metadata.
            if error.code in ("bad_config", "unauthorized"):
                return None
            if error.code != "not_found":
                raise
            if name:
                return None
            if self._name:
                raise bad_config(f"name: {error.message}") from error
            # The address has another job by now.
            self._job = None
            return None if known is None else self._ask_model(version, deadline)
        if not name:
            self._job = job
        return model_of(metadata) if _describes(metadata, version) else None

    def _metadata_of(self, job: str, version: str, deadline: Deadline) -> Any:
        """That of a canary; None if the model has just changed: then JSON alone says the dtypes."""
        try:
            return self._over_http.json("GET", f"/v2/models/{quote(job)}/versions/{quote(version)}", deadline)
        except ServingError as error:
            if error.code != "not_found":
                raise
            return None

    def _enqueue_all(self, records: Sequence[Any], timeout: Optional[float]) -> List[Union[Enqueued, ServingError]]:
        """Enqueues as many records as one call takes. Returns the error of each that the queue does not have."""
        made = [_message_of(record) for record in records]
        messages = [each for each in made if isinstance(each, Message)]
        sent = zip(messages, self._send(messages, timeout))
        outcomes = (error.with_uri(enqueued.uri) if error else enqueued for (enqueued, *_), error in sent)
        return [next(outcomes) if isinstance(each, Message) else each for each in made]

    def _send(self, messages: Sequence[Message], timeout: Optional[float]) -> List[Optional[ServingError]]:
        if not messages:
            return []
        try:
            if self._sqs is not None:
                return self._sqs.send(messages, self._limit(timeout, str(self._sqs)))
            ((enqueued, body, notify, token, key, expires, delay, priority, model),) = messages
            headers = {**_JSON, "Idempotency-Key": enqueued.identity, **_key_header(key)}
            path = "/predictions" + _query({"notify": notify, "expiresAfter": expires, "delaySeconds": delay,
                                            "priority": priority, "model": model})
            if token is not None:
                # In the body, because addresses are logged on the way.
                body = b'{"taskToken":%s,%s' % (dump(token), body[1:])
            deadline = self._limit(timeout)
            body = within_gateway(self._over_http, body, deadline)
            self._over_http.json("POST", path, deadline, body, headers)
            return [None]
        except ServingError as error:
            return [error for _ in messages]

    def _ask(self, method: str, uri: Uri, identity: Optional[str], deadline: Deadline,
             headers: Optional[Mapping[str, str]] = None) -> Optional[Result]:
        name, wanted = named(uri, identity)
        try:
            answer = self._over_http.json(method, f"/predictions?{_parameters(name, wanted)}", deadline, None, headers)
        except ServingError as error:
            if error.code == "not_found":
                return None
            raise
        if wanted is not None and isinstance(answer, dict) and answer.get("identity") != wanted:
            return None
        return result_of(answer, self._models)

    def _drained(self, limit: Callable[[], Deadline]) -> Iterator[Outcome]:
        more = True
        while True:
            outcome = self._take()
            if outcome is not None:
                yield outcome
            elif self._left:
                self._fetch_next(limit())
            elif more:
                more = self._take_page(limit())
            else:
                return

    def _take(self) -> Optional[Outcome]:
        """The next result that was taken from the service; None for a large one, which is not here yet."""
        with self._lock:
            if not self._left or _is_large(self._left[0]):
                return None
            found = self._left.popleft()
        return found if isinstance(found, Outcome) else outcome_of(found, self._models)

    def _take_page(self, deadline: Deadline) -> bool:
        """Takes results from the service, for `_take`. Returns whether there may be more."""
        page = self._over_http.json("DELETE", "/predictions", deadline)
        if not isinstance(page, dict) or not isinstance(page.get("results"), list):
            raise ServingError("internal", f"{self._over_http.url} answered without results")
        with self._lock:
            self._left.extend(page["results"])
        return page.get("more") is True

    def _fetch_next(self, deadline: Deadline) -> None:
        """Puts a large result, which stays under its uri until it is here, or its error into its place."""
        with self._lock:
            if not self._left or not _is_large(self._left[0]):
                return
            large = self._left.popleft()
        uri, identity = str(large.get("uri")), large.get("identity")
        try:
            path = f"/predictions?{_parameters(*named(uri, identity))}"
            whole = outcome_of(self._over_http.json("DELETE", path, deadline), self._models)
        except ServingError as error:
            if error.code == "not_found":
                # Another client has it.
                return
            whole = Outcome(uri, str(identity or ""), None, Unfetched(error.code, error.message, uri))
        with self._lock:
            self._left.appendleft(whole)

    def _outcome(self, record: Uri, take: bool, end: float) -> Outcome:
        uri, identity = named(record, None)
        control = CALL.get()
        if control is not None:
            # The remaining time counts from now, not from the moment this began to wait for a thread.
            control.begun = None
        try:
            if take and identity is None:
                raise bad_request("take: expected what enqueue returned, because a uri alone may be another's")
            left = end - time.monotonic()
            if left <= 0:
                raise ServingError("timeout", "no result in time", uri)
            outcome = Outcome(uri, identity or "", self.wait(record, timeout=left), None)
        except ServingError as error:
            outcome = Outcome(uri, identity or "", None, error if error.uri else error.with_uri(uri))
            # Only a record's own failure is its result.
            take = take and error.uri is not None and error.code != "timeout"
        if take:
            try:
                self.query_and_delete(record, timeout=max(0.001, end - time.monotonic()))
            except ServingError:
                # Its own failure, which is deleted too; or the service is away, and it expires.
                pass
        return outcome


def named(record: Uri, identity: Optional[str]) -> Tuple[str, Optional[str]]:
    """The uri and the identity of a uri, or of what `enqueue` returned. Raises bad_request."""
    if isinstance(record, Enqueued):
        return check_uri(record.uri), _checked_identity(record.identity if identity is None else identity)
    return check_uri(record), _checked_identity(identity)


def _message_of(record: Any) -> Union[Message, ServingError]:
    if not isinstance(record, tuple) or not 2 <= len(record) <= len(Record._fields):
        return bad_request(f"a record: expected (uri, inputs) or (uri, inputs, identity), got {kind_of(record)}")
    uri, inputs, identity, notify, token, key, expires, delay, priority, model = Record(*record)
    try:
        body = record_of(uri, inputs)
        enqueued = Enqueued(uri, _checked_identity(identity) or str(uuid.uuid4()))
        return Message(enqueued, body, _checked_target(notify), _checked_token(token, notify), _checked_key(key),
                       *_checked_schedule(expires, delay, priority), _checked_model(model))
    except ServingError as error:
        return error.with_uri(uri)


def _describes(metadata: Any, version: str) -> bool:
    versions = metadata.get("versions") if isinstance(metadata, dict) else None
    return isinstance(versions, list) and version in versions


def _is_large(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("status") == "succeeded" and "large" in answer


def _checked_identity(identity: Any) -> Optional[str]:
    if identity is not None and not (isinstance(identity, str) and _IDENTITY.fullmatch(identity)):
        raise bad_request('identity: expected 1 to 64 letters, digits, ".", "_" or "-", such as a UUID')
    return identity


def _checked_target(notify: Any) -> Optional[str]:
    if notify is not None and not (isinstance(notify, str) and _TARGET.fullmatch(notify)):
        raise bad_request('notify: expected a name of 1 to 40 letters, digits, "-" and "_" that begins with a letter')
    return notify


def _checked_token(token: Any, notify: Any) -> Optional[str]:
    if token is None:
        return None
    if not (isinstance(token, str) and _TOKEN.fullmatch(token)):
        raise bad_request("task_token: expected the token of a task of Step Functions, of at most 2048 characters")
    if notify is None:
        raise bad_request("task_token: needs notify, the name of a target with stepFunctions")
    return token


def _checked_key(key: Any) -> Optional[str]:
    if key is not None and not (isinstance(key, str) and _KEY.fullmatch(key)):
        raise bad_request("canary_key: expected 1 to 128 letters, digits and punctuation of ASCII, such as the id of a user")
    return key


def _checked_schedule(expires: Any, delay: Any, priority: Any) -> Tuple[Optional[int], Optional[int], Optional[str]]:
    if priority not in (None, "high", "normal"):
        raise bad_request(f'priority: expected "high" or "normal", got {priority!r:.40}')
    for name, value, least, most in (("expires_after", expires, 1, _EXPIRES_AFTER), ("delay_seconds", delay, 0, _DELAY)):
        if value is not None and not (type(value) is int and least <= value <= most):
            raise bad_request(f"{name}: expected whole seconds from {least} to {most}, got {value!r:.40}")
    if expires is not None and delay is not None and delay >= expires:
        raise bad_request(f"delay_seconds: with {delay} and expires_after {expires} the record would never run")
    return expires, delay, priority


def _checked_model(model: Any) -> Optional[str]:
    if model is not None and not (isinstance(model, str) and _MODEL.fullmatch(model)):
        raise ServingError("not_found", f"no model {model!r:.80}; names have 1 to 60 letters, digits, \"-\" or \"_\"")
    return model


def _query(parameters: Mapping[str, Union[str, int, None]]) -> str:
    given = "&".join(f"{name}={quote(str(value))}" for name, value in parameters.items() if value is not None)
    return f"?{given}" if given else ""


def _key_header(key: Optional[str]) -> Dict[str, str]:
    return {} if key is None else {"Canary-Key": key}


def _parameters(uri: str, identity: Optional[str]) -> str:
    # In the path, API Gateway would take its "?" and "/" for its own.
    return f"uri={quote(uri)}" + ("" if identity is None else f"&identity={identity}")


def outcome_of(answer: Any, models: Mapping[str, Optional[Model]]) -> Outcome:
    """Reads one result of a page."""
    identity = str(answer.get("identity") or "") if isinstance(answer, dict) else ""
    try:
        result = result_of(answer, models)
        return Outcome(result.uri, identity, result, None)
    except ServingError as error:
        if error.uri is None:
            raise
        return Outcome(error.uri, identity, None, error)
