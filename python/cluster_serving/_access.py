"""How requests say who calls: with a signature, a token or an API key, and never two of these."""
from __future__ import annotations

import os
import re
import threading
import urllib.parse
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Callable, Dict, Mapping, Optional

from wkr_serving.client.deadline import Deadline

from ._errors import ServingError, bad_config
from ._sigv4 import Credentials, find_credentials, sign

KINDS = ("iam", "jwt", "api-key", "none")
_NAMES = {"iam": "AWS credentials", "jwt": "a token (token=, CLUSTER_SERVING_TOKEN)",
          "api-key": "an API key (api_key=, CLUSTER_SERVING_API_KEY)", "none": "nothing"}
_TOKEN = re.compile(r"[\w.~+/-]+=*", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]{1,512}")
_GATEWAY = re.compile(r"[a-z0-9-]+\.execute-api\.([a-z]{2,}(?:-[a-z0-9]+)+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)")
# AWS takes five minutes; an answer's Date is in whole seconds, and took its way.
_SKEW = timedelta(minutes=4)


class Access:
    """Adds to requests to one address what says who calls.

    `credentials` returns the keys to sign with; by default they are found in the environment. Raises bad_config, which
    does not show a secret.
    """

    def __init__(self, url: str, auth: Optional[str] = None, token: Optional[str] = None, api_key: Optional[str] = None,
                 region: Optional[str] = None, credentials: Optional[Callable[[], Credentials]] = None,
                 service: str = "execute-api") -> None:
        self._url = url
        self._is_guess = False
        self._secret: Optional[str] = None
        self.kind = self._choose(auth, token, api_key, credentials is not None)
        self._service = service
        self._region = _region_of(url) or region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if self.kind == "iam" and not self._region:
            raise bad_config(f"auth iam needs a region for {url}: region=, or the variable AWS_REGION")
        self._find = credentials or find_credentials
        # The clock of the API minus that of this machine.
        self._ahead = timedelta()
        self._lock = threading.Lock()

    def _choose(self, auth: Optional[str], token: Optional[str], api_key: Optional[str], has_credentials: bool) -> str:
        # Options take precedence over the environment.
        is_said = token is not None or api_key is not None or has_credentials
        if auth is None and not is_said:
            auth = os.environ.get("CLUSTER_SERVING_AUTH") or None
        if auth is not None and auth not in KINDS:
            raise bad_config(f"auth: expected one of {', '.join(KINDS)}, got {auth!r:.40}")
        if not is_said:
            token = (os.environ.get("CLUSTER_SERVING_TOKEN") or None) if auth in (None, "jwt") else None
            api_key = (os.environ.get("CLUSTER_SERVING_API_KEY") or None) if auth in (None, "api-key") else None
        given = {"jwt": token, "api-key": api_key, "iam": "" if has_credentials else None}
        kinds = [kind for kind, secret in given.items() if secret is not None]
        if len(kinds) > 1 or (kinds and auth is not None and auth != kinds[0]):
            names = [f"auth {auth}"] * (auth is not None) + [_NAMES[kind] for kind in kinds]
            raise bad_config(f"{' and '.join(names)} exclude each other; a request has one way to say who calls")
        if not kinds:
            if auth in ("jwt", "api-key"):
                raise bad_config(f"auth {auth} needs {_NAMES[auth]}")
            self._is_guess = auth is None and _region_of(self._url) is not None
            return auth or ("iam" if self._is_guess else "none")
        self._secret = given[kinds[0]]
        if token is not None and not (16 <= len(token) <= 8192 and _TOKEN.fullmatch(token)):
            raise bad_config("token: expected 16 to 8192 letters, digits and - . _ ~ + /")
        if api_key is not None and not _KEY.fullmatch(api_key):
            raise bad_config("api_key: expected 1 to 512 characters of ASCII without spaces")
        return kinds[0]

    def headers(self, method: str, path: str, headers: Mapping[str, str], body: bytes,
                deadline: Deadline) -> Dict[str, str]:
        """Returns the headers to add to one request. Raises unauthorized without credentials; TimeoutError."""
        if self.kind == "jwt":
            return {"Authorization": f"Bearer {self._secret}"}
        if self.kind == "api-key":
            return {"X-Api-Key": str(self._secret)}
        if self.kind == "none":
            return {}
        try:
            # Some sources ask the network.
            credentials = deadline.run(self._find)
        except ServingError:
            if self._is_guess:
                return {}
            raise
        now = datetime.now(timezone.utc) + self._ahead
        return sign(method, path, headers, body, service=self._service, region=str(self._region),
                    credentials=credentials, now=now)

    def corrects_clock(self, date: Optional[str]) -> bool:
        """Takes the time of an answer that refused a signature. Returns whether to sign the request once more."""
        if self.kind != "iam" or date is None:
            return False
        try:
            ahead = parsedate_to_datetime(date) - datetime.now(timezone.utc)
        except (TypeError, ValueError):
            return False
        with self._lock:
            is_off = abs(ahead - self._ahead) > _SKEW
            if is_off:
                self._ahead = ahead
            return is_off


def _region_of(url: str) -> Optional[str]:
    """Returns the region in one of API Gateway's own addresses; None for any other."""
    parts = urllib.parse.urlsplit(url)
    match = _GATEWAY.fullmatch(parts.hostname or "") if parts.scheme == "https" else None
    return match and match.group(1)
