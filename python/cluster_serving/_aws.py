"""Requests to AWS itself: CloudFormation and SQS, signed, with the limits of every other request."""
from __future__ import annotations

import os
import ssl
from typing import Callable, Mapping, Optional

from wkr_serving.client.transport import Answer

from ._access import Access
from ._api import Api
from ._errors import ServingError
from ._sigv4 import Credentials

_ANSWER_BYTES = 1024 * 1024
_EXPIRED = "the AWS credentials have expired"
_UNKNOWN = "AWS does not know these credentials"
_WHY = {"ExpiredToken": _EXPIRED, "ExpiredTokenException": _EXPIRED, "InvalidClientTokenId": _UNKNOWN,
        "SignatureDoesNotMatch": _UNKNOWN, "UnrecognizedClientException": _UNKNOWN}


class AwsApi(Api):
    """The API of a service of AWS, by default at `url`; AWS_ENDPOINT_URL_<SERVICE> or AWS_ENDPOINT_URL names another.

    `action` is what it is asked for.
    """

    def __init__(self, url: str, action: str, region: str, credentials: Optional[Callable[[], Credentials]] = None,
                 ssl_context: Optional[ssl.SSLContext] = None, endpoint: Optional[str] = None) -> None:
        service = action.partition(":")[0]
        url = (endpoint or os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get("AWS_ENDPOINT_URL")
               or url)
        access = Access(url, "iam", region=region, credentials=credentials, service=service)
        super().__init__(url, access, ssl_context, _ANSWER_BYTES)
        self._action = action

    def _is_repeatable(self, method: str, headers: Mapping[str, str]) -> bool:
        # A message that is sent twice has one identity.
        return True

    def _may_pass(self, answer: Answer, is_repeatable: bool) -> bool:
        return answer.status >= 500 or (answer.status >= 400 and b"Throttl" in answer.body)

    def _refusal(self, answer: Answer, name: str, message: str) -> ServingError:
        """The error that the service calls `name`."""
        why = f"the credentials need {self._action}" if name.startswith("AccessDenied") else _WHY.get(name)
        text = f"{self.url} answered {answer.status}: {f'{why}: ' if why else ''}{name:.100} {message:.500}"
        return ServingError("unauthorized" if why else "queue_unavailable", text)
