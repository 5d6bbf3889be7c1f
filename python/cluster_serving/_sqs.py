"""The queue of a service, for clients that reach SQS."""
from __future__ import annotations

import os
import re
import ssl
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from wkr_serving.client.deadline import Deadline
from wkr_serving.client.transport import Answer, object_of

from ._aws import AwsApi
from ._errors import ServingError, bad_config, bad_request
from ._inputs import dump
from ._results import Enqueued
from ._sigv4 import Credentials

# Messages in one call.
MESSAGES = 10
# Limit for a message with its attributes, and for all messages of a call. A larger record goes through S3 or over
# HTTPS.
_CALL_BYTES = 1024 * 1024
# Before messages that SQS refused for now are sent again.
_PAUSES = (0.05, 0.1, 0.2)
_HEADERS = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessageBatch"}
_QUEUE = re.compile(r"https?://[^/\s]+/\S+")
_REGION = re.compile(r"https://sqs\.([a-z0-9-]+)\.amazonaws\.com")


class Message(NamedTuple):
    """A record in the form in which it is sent."""

    enqueued: Enqueued
    body: bytes
    notify: Optional[str] = None
    task_token: Optional[str] = None
    canary_key: Optional[str] = None
    expires_after: Optional[int] = None
    delay_seconds: Optional[int] = None
    priority: Optional[str] = None
    model: Optional[str] = None


class Sqs:
    """Sends records to the SQS queue at `url`."""

    def __init__(self, url: str, region: Optional[str] = None, credentials: Optional[Callable[[], Credentials]] = None,
                 ssl_context: Optional[ssl.SSLContext] = None) -> None:
        if not _QUEUE.fullmatch(url):
            raise bad_config(f"sqs: expected the url of a queue, got {url!r:.200}")
        match = _REGION.match(url)
        region = (match and match.group(1)) or region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not region:
            raise bad_config(f"sqs: which region has {url:.200}? Say it with region=, or AWS_REGION")
        self._url = url
        origin = urllib.parse.urlsplit(url)._replace(path="", query="", fragment="").geturl()
        self._api = _Api(origin, "sqs:SendMessage", region, credentials, ssl_context)

    def __str__(self) -> str:
        return self._url

    def close(self) -> None:
        """Closes the connections."""
        self._api.close()

    def send(self, messages: Sequence[Message], deadline: Deadline) -> List[Optional[ServingError]]:
        """Returns, for each message, None when SQS has it, or its error: queue_unavailable, too_large, timeout."""
        errors: Dict[str, ServingError] = {}
        for queue, entries in self._calls(messages, errors):
            left = entries
            try:
                for pause in (*_PAUSES, None):
                    left = self._tried(queue, left, errors, pause is None, deadline)
                    if not left:
                        break
                    deadline.pause(pause or 0.0)
            except (ServingError, TimeoutError) as error:
                known = error if isinstance(error, ServingError) else ServingError("timeout", f"{self._url}: {error}")
                if queue != self._url and "NonExistentQueue" in known.message:
                    known = bad_request('priority: the job has no queue for "high"; set queue.highShare in its '
                                        "config.yaml, such as 0.7")
                errors.update((entry["Id"], known) for entry in left)
        return [errors.get(str(i)) for i in range(len(messages))]

    def _calls(self, messages: Sequence[Message],
               errors: Dict[str, ServingError]) -> Iterator[Tuple[str, List[Dict[str, Any]]]]:
        for is_high, queue in ((False, self._url), (True, f"{self._url}-high")):
            places = [i for i, each in enumerate(messages) if (each.priority == "high") == is_high]
            for entries in _calls([(i, messages[i]) for i in places], errors):
                yield queue, entries

    def _tried(self, queue: str, entries: List[Dict[str, Any]], errors: Dict[str, ServingError], is_last: bool,
               deadline: Deadline) -> List[Dict[str, Any]]:
        """Returns what to send again, and notes the errors of what is not."""
        body = dump({"QueueUrl": queue, "Entries": entries})
        answer = self._api.json("POST", "/", deadline, body, _HEADERS)
        taken, failed = _by_id(answer, "Successful"), _by_id(answer, "Failed")
        again = []
        for entry in entries:
            # A message on neither list may not be in the queue.
            failure = failed.get(entry["Id"], {})
            if entry["Id"] in taken:
                continue
            if not is_last and not failure.get("SenderFault"):
                again.append(entry)
                continue
            text = f"{failure.get('Code', 'no word')} {failure.get('Message', '')}"
            errors[entry["Id"]] = ServingError("queue_unavailable", f"SQS did not take the record ({queue}): {text:.500}")
        return again


class _Api(AwsApi):
    def _error(self, answer: Answer, path: str) -> ServingError:
        body = object_of(answer)
        return self._refusal(answer, str(body.get("__type", "")).rpartition("#")[2], str(body.get("message", "")))


def _calls(messages: Sequence[Tuple[int, Message]],
           errors: Dict[str, ServingError]) -> Iterator[List[Dict[str, Any]]]:
    """The entries of each call: up to ten of together up to 1 MiB. Notes the errors of messages that fit into none.

    A message has its place among all of them.
    """
    entries: List[Dict[str, Any]] = []
    total = 0
    for i, ((_, identity), body, notify, token, key, expires, delay, _, model) in messages:
        optional = {"notify": notify, "taskToken": token, "canary-key": key, "model": model,
                    "expiresAfter": None if expires is None else str(expires)}
        named = {"identity": identity, **{name: text for name, text in optional.items() if text is not None}}
        size = len(body) + sum(len(name) + len("String") + len(text) for name, text in named.items())
        if size > _CALL_BYTES:
            errors[str(i)] = ServingError("too_large", f"the record is {size} bytes as a message, over the limit of "
                                          f"{_CALL_BYTES}; over HTTPS (url=) it may be larger")
            continue
        if len(entries) == MESSAGES or total + size > _CALL_BYTES:
            yield entries
            entries, total = [], 0
        total += size
        # A model with many records does not hold up the others (a fair queue).
        group = {} if model is None else {"MessageGroupId": model}
        entries.append({"Id": str(i), "MessageBody": body.decode("utf-8"), **group,
                        "MessageAttributes": {name: {"DataType": "String", "StringValue": text}
                                              for name, text in named.items()},
                        **({"DelaySeconds": delay} if delay else {})})
    if entries:
        yield entries


def _by_id(answer: Any, name: str) -> Dict[str, Dict[str, Any]]:
    listed = answer.get(name) if isinstance(answer, dict) else None
    found = listed if isinstance(listed, list) else []
    return {each["Id"]: each for each in found if isinstance(each, dict) and isinstance(each.get("Id"), str)}
