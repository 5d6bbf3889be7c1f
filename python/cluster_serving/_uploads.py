"""Uploads a body that is too large for the gateway to where the API says, and names it in a small one."""
from __future__ import annotations

import hashlib

from wkr_serving.client.deadline import Deadline
from wkr_serving.client.transport import object_of

from ._api import Api
from ._errors import ServingError
from ._inputs import dump

# A larger body is uploaded first. Lambda takes 6 MiB with what the gateway writes around it.
_DIRECT_BYTES = 6 * 1024 * 1024 - 65_536
_UPLOAD_BYTES = 32 * 1024 * 1024
_JSON = {"Content-Type": "application/json"}


def within_gateway(api: Api, body: bytes, deadline: Deadline) -> bytes:
    """Returns the body, or one that names its upload where it is too large.

    A service without uploads gets the body itself, and answers 413. Raises too_large, timeout, queue_unavailable.
    """
    if len(body) <= _DIRECT_BYTES:
        return body
    if len(body) > _UPLOAD_BYTES:
        raise ServingError("too_large", f"the body is {len(body)} bytes, over the limit of {_UPLOAD_BYTES} (payloadBytes)")
    asked = dump({"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()})
    try:
        answer = object_of(api.answer("POST", "/uploads", deadline, asked, _JSON))
    except ServingError as error:
        if error.code not in ("bad_config", "not_found"):
            raise
        return body
    name, location, headers = answer.get("id"), answer.get("url"), answer.get("headers")
    if not isinstance(name, str) or not isinstance(location, str):
        raise ServingError("internal", f"{api.url} does not say where to upload")
    api.upload(location, body, headers if isinstance(headers, dict) else {}, deadline)
    return dump({"payload": name})
