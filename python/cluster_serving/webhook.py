"""What the service tells a webhook when a record is done."""
from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from typing import Any, Dict, Mapping, Optional, Union

from ._errors import ServingError, bad_config

_BODY_BYTES = 1024 * 1024
_MOST_SIGNATURES = 16
_SECRET_BYTES = 24


def unwrap(body: Union[str, bytes], headers: Mapping[str, str], secret: str, *, tolerance: float = 300,
           now: Optional[float] = None) -> Dict[str, Any]:
    """The event in a request to a webhook, `{"id", "type", "timestamp", "data"}`, whose `data` has the uri, the identity
    and the status of the record.

    `body` is the request's as it came, before it was parsed. `secret` is `whsec_...`, or several with blanks between
    them while one replaces the other. The same event may come several times, always under the same id. Raises
    unauthorized for a message that was not signed with the secret, or is older than `tolerance` seconds.
    """
    data = body.encode("utf-8") if isinstance(body, str) else bytes(body)
    if len(data) > _BODY_BYTES:
        raise _refused(f"its body is over {_BODY_BYTES} bytes")
    found = {name.lower(): text for name, text in headers.items()}
    identifier, timestamp, signature = (found.get(f"webhook-{name}") or "" for name in ("id", "timestamp", "signature"))
    if not (identifier and timestamp and signature):
        raise _refused("a header webhook-id, -timestamp or -signature is missing")
    seconds = int(timestamp) if re.fullmatch("[0-9]{1,12}", timestamp) else None
    if seconds is None or abs((time.time() if now is None else now) - seconds) > tolerance:
        raise _refused(f"its time is not within {tolerance:g} s of now")
    signed = f"{identifier}.{timestamp}.".encode("utf-8") + data
    signatures = [each[3:] for each in signature.split(" ")[:_MOST_SIGNATURES] if each.startswith("v1,")]
    keys = [_key(word) for word in secret.split()]
    if not keys:
        raise _bad_secret()
    made = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()) for key in keys]
    if not any(hmac.compare_digest(each.encode("utf-8", "replace"), own) for each in signatures for own in made):
        raise _refused("its signature is not made with the secret")
    event: Dict[str, Any] = json.loads(data)
    return {**event, "id": identifier}


def _key(word: str) -> bytes:
    try:
        key = base64.b64decode(word[6:] if word.startswith("whsec_") else word, validate=True)
    except (binascii.Error, ValueError):
        raise _bad_secret() from None
    if len(key) < _SECRET_BYTES:
        raise _bad_secret()
    return key


def _refused(why: str) -> ServingError:
    return ServingError("unauthorized", f"the message is not from the service: {why}")


def _bad_secret() -> ServingError:
    return bad_config(f"secret: expected whsec_ and base64 of at least {_SECRET_BYTES} bytes")
