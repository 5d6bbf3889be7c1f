"""Finds a deployment by the name of its CloudFormation stack. Nothing is kept between calls."""
from __future__ import annotations

import os
import re
import ssl
import urllib.parse
from typing import Any, Callable, Dict, NamedTuple, Optional
from xml.etree import ElementTree

from ._access import KINDS
from ._api import deadline_of
from ._aws import AwsApi
from ._errors import ServingError, bad_config
from ._sigv4 import Credentials
from .client import Client

_ARN = re.compile(r"arn:[\w-]+:cloudformation:([a-z0-9-]+):\d{12}:stack/[\w-]+/[\w-]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")


class Places(NamedTuple):
    """Where a deployment is, and how it asks who calls."""

    stack: str
    region: str
    url: str
    auth: str
    job: str
    queue_url: str
    bucket: str


def connect(stack: Optional[str] = None, *, region: Optional[str] = None, timeout: float = 30.0,
            endpoint: Optional[str] = None, auth: Optional[str] = None, token: Optional[str] = None,
            api_key: Optional[str] = None, credentials: Optional[Callable[[], Credentials]] = None,
            ssl_context: Optional[ssl.SSLContext] = None) -> Client:
    """Returns a `Client` of the deployment whose stack has this name or ARN, by default CLUSTER_SERVING_STACK.

    How it says who calls is what the stack says, unless `auth`, `token` or `api_key` do. `credentials` are for the
    look-up too. Raises as `find_stack`.
    """
    stack = stack or os.environ.get("CLUSTER_SERVING_STACK")
    if not stack:
        raise bad_config("connect needs a stack: its name, or CLUSTER_SERVING_STACK")
    places = find_stack(stack, region=region, timeout=timeout, endpoint=endpoint, credentials=credentials,
                        ssl_context=ssl_context)
    if auth is None and token is None and api_key is None:
        auth = places.auth
    return Client(places.url, timeout=timeout, auth=auth, token=token, api_key=api_key, region=places.region,
                  credentials=credentials if auth == "iam" else None, ssl_context=ssl_context, name=places.job)


def find_stack(stack: str, *, region: Optional[str] = None, timeout: float = 15.0, endpoint: Optional[str] = None,
               credentials: Optional[Callable[[], Credentials]] = None,
               ssl_context: Optional[ssl.SSLContext] = None) -> Places:
    """Returns where the deployment is.

    `region` is by default that of the ARN or AWS_REGION, `endpoint` AWS_ENDPOINT_URL_CLOUDFORMATION, AWS_ENDPOINT_URL or
    AWS's own. Raises not_found, unauthorized, bad_config (no region, or no stack of this service), queue_unavailable (it is still being created,
    or CloudFormation cannot be reached), timeout.
    """
    arn = _ARN.fullmatch(stack)
    if not arn and not _NAME.fullmatch(stack):
        raise bad_config(f'stack: expected 1 to 128 letters, digits and "-", or an ARN, got {stack!r:.200}')
    region = (arn and arn.group(1)) or region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise bad_config(f"stack {stack}: which region? Say it with region=, or AWS_REGION")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    body = urllib.parse.urlencode({"Action": "DescribeStacks", "Version": "2010-05-15", "StackName": stack})
    api = _CloudFormation(f"https://cloudformation.{region}.{suffix}", "cloudformation:DescribeStacks", region,
                          credentials, ssl_context, endpoint)
    try:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = api.answer("POST", "/", deadline_of(timeout, api.url), body.encode("ascii"), headers)
    finally:
        api.close()
    root = _xml(answer.body)
    if root is None:
        raise ServingError("queue_unavailable", f"{api.url} does not answer as CloudFormation")
    found = root.find("DescribeStacksResult/Stacks/member")
    if found is None:
        raise ServingError("not_found", f"there is no stack {stack}")
    return _places_of(stack, region, found)


class _CloudFormation(AwsApi):
    """Its errors are XML."""

    def _error(self, answer: Any, path: str) -> ServingError:
        root = _xml(answer.body)
        name = "" if root is None else root.findtext("Error/Code", "")
        message = "" if root is None else root.findtext("Error/Message", "")
        if "does not exist" in message:
            text = f"{message[:500]}, for these credentials; `serverless deploy` prints its name"
            return ServingError("not_found", text)
        return self._refusal(answer, name, message)


def _xml(data: bytes) -> Optional[ElementTree.Element]:
    """XML without the namespaces of its names; None for what is none, or declares entities, which AWS does not."""
    try:
        root = None if b"<!DOCTYPE" in data else ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return None
    for element in root.iter() if root is not None else ():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _places_of(stack: str, region: str, found: ElementTree.Element) -> Places:
    status = found.findtext("StackStatus", "")
    outputs: Dict[str, str] = {}
    for member in found.findall("Outputs/member"):
        outputs[member.findtext("OutputKey", "")] = member.findtext("OutputValue", "")
    missing = [key for key in ("HttpApiUrl", "QueueUrl", "BucketName", "JobName", "Auth") if not outputs.get(key)]
    if status.startswith("DELETE_"):
        raise ServingError("not_found", f"stack {stack} is being removed ({status})")
    if "QueueUrl" in missing and status.endswith("_IN_PROGRESS"):
        raise ServingError("queue_unavailable",
                           f"stack {stack} is still being created ({status}); try again when deploy has ended")
    if missing:
        raise bad_config(f"stack {stack} ({status}) has no output {', '.join(missing)}: its deployment failed, "
                         "or it is not a stack of Cluster Serving")
    auth = outputs["Auth"]
    if auth not in KINDS:
        raise bad_config(f"stack {stack} has auth {auth:.40}, which this version does not know: update the client")
    return Places(stack, region, outputs["HttpApiUrl"].rstrip("/"), auth, outputs["JobName"], outputs["QueueUrl"],
                  outputs["BucketName"])
