"""The queue of a service, for clients that reach SQS: `pip install 'cluster-serving[aws]'`."""
from __future__ import annotations

import re
import threading
from typing import Any, Optional

from wkr_serving.client.deadline import Deadline

from ._errors import ServingError, bad_config, extra

# Of a message with its attributes; a larger record travels through S3, or over HTTPS.
_MESSAGE_BYTES = 1024 * 1024
_QUEUE = re.compile(r"https?://[^/\s]+/\S+")
_REGION = re.compile(r"https://sqs\.([a-z0-9-]+)\.amazonaws\.com")


class Sqs:
    """Sends records to the SQS queue at `url`."""

    def __init__(self, url: str, region: Optional[str] = None) -> None:
        if not _QUEUE.fullmatch(url):
            raise bad_config(f"sqs: expected the url of a queue, got {url!r:.200}")
        self._url = url
        match = _REGION.match(url)
        self._region = (match and match.group(1)) or region
        self._lock = threading.Lock()
        self._client: Any = None
        extra("boto3", "aws")

    def __str__(self) -> str:
        return self._url

    def send(self, body: bytes, identity: str, deadline: Deadline) -> None:
        """Returns when SQS has the message. Raises queue_unavailable, too_large, timeout."""
        attributes = {"identity": {"DataType": "String", "StringValue": identity}}
        size = len(body) + len("identity") + len("String") + len(identity)
        if size > _MESSAGE_BYTES:
            raise ServingError("too_large", f"the record is {size} bytes as a message, over the limit of "
                               f"{_MESSAGE_BYTES}; over HTTPS (url=) it may be larger")

        def call() -> None:
            text = body.decode("utf-8")
            self._open().send_message(QueueUrl=self._url, MessageBody=text, MessageAttributes=attributes)

        try:
            deadline.run(call)
        except TimeoutError as error:
            raise ServingError("timeout", f"{self._url}: {error}") from error
        except Exception as error:
            raise ServingError("queue_unavailable", f"SQS did not take the record ({self._url}): {error}") from error

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                # It tries again by itself; the caller's time limit ends it.
                config = extra("botocore.config", "aws").Config(connect_timeout=10, read_timeout=20,
                                                                retries={"max_attempts": 3, "mode": "standard"})
                self._client = extra("boto3", "aws").Session().client("sqs", region_name=self._region, config=config)
            return self._client
