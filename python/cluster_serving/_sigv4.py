"""Signs requests with AWS Signature Version 4, and finds the credentials."""
from __future__ import annotations

import configparser
import hashlib
import hmac
import os
import urllib.parse
from datetime import datetime
from functools import lru_cache
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ._errors import ServingError, extra

_SOURCES = "AWS_PROFILE with static keys, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


class Credentials(NamedTuple):
    """Keys of AWS. Temporary ones have a token."""

    access_key: str
    secret_key: str
    token: Optional[str] = None


def find_credentials() -> Credentials:
    """Finds credentials: the variables; with boto3, its whole chain; without, the static keys of the profile.

    Raises unauthorized where there are none.
    """
    environ = os.environ
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return Credentials(key, secret, environ.get("AWS_SESSION_TOKEN") or None)
    try:
        given = _session(environ.get("AWS_PROFILE")).get_credentials()
        frozen = given and given.get_frozen_credentials()
    except ImportError as error:
        found = _of_profile()
        if found is None:
            raise ServingError("unauthorized", f"no AWS credentials: set {_SOURCES}; for SSO, roles and machines of "
                               f"AWS, {error}") from None
        return found
    except Exception as error:
        # botocore raises this also for a profile that does not exist.
        raise ServingError("unauthorized", f"no AWS credentials: {error}") from error
    if not frozen:
        raise ServingError("unauthorized", f"no AWS credentials: boto3 finds none; set {_SOURCES}")
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token)


@lru_cache(maxsize=None)
def _session(_profile: Optional[str]) -> Any:
    # One for all clients: it keeps what it has, and renews it.
    return extra("boto3", "aws").Session()


def _of_profile() -> Optional[Credentials]:
    profile = os.environ.get("AWS_PROFILE") or "default"
    home = os.path.expanduser("~/.aws")
    in_config = profile if profile == "default" else f"profile {profile}"
    for path, section in ((os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/credentials", profile),
                          (os.environ.get("AWS_CONFIG_FILE") or f"{home}/config", in_config)):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise ServingError("unauthorized", f"no AWS credentials: {path} cannot be read: {error}") from error
        if parser.has_option(section, "aws_access_key_id") and parser.has_option(section, "aws_secret_access_key"):
            return Credentials(parser.get(section, "aws_access_key_id"), parser.get(section, "aws_secret_access_key"),
                               parser.get(section, "aws_session_token", fallback=None))
    return None


def quote(text: str) -> str:
    """All but letters, digits and - . _ ~ as %XX: the one form that every reader of the specification encodes alike."""
    return urllib.parse.quote(text, safe="")


def sign(method: str, path: str, headers: Mapping[str, str], body: bytes, *, service: str, region: str,
         credentials: Credentials, now: datetime) -> Dict[str, str]:
    """Returns the headers to add. `path` is encoded, with its query; `headers` has Host. `now` is in UTC."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    added = {"X-Amz-Date": stamp}
    if credentials.token:
        added["X-Amz-Security-Token"] = credentials.token
    signed = {name.lower(): " ".join(value.split()) for name, value in {**headers, **added}.items()}
    names = ";".join(sorted(signed))
    route, _, query = path.partition("?")
    canonical = "\n".join([
        method,
        # Encoded once more, as every service but S3 has it.
        urllib.parse.quote(route or "/", safe="/"),
        "&".join(sorted(pair if "=" in pair else f"{pair}=" for pair in query.split("&")) if query else []),
        *(f"{name}:{signed[name]}" for name in sorted(signed)),
        "",
        names,
        hashlib.sha256(body).hexdigest(),
    ])
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode('utf-8')).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode("utf-8")
    for part in scope.split("/"):
        key = hmac.new(key, part.encode("utf-8"), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode("utf-8"), hashlib.sha256).hexdigest()
    added["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, "
                              f"Signature={signature}")
    return added
