"""The error of every call."""
from __future__ import annotations

import importlib
from typing import Any, Dict, Optional, Tuple

# Every code of the service: its HTTP status, and whether the same call may succeed later.
CODES: Dict[str, Tuple[int, bool]] = {
    "bad_request": (400, False),
    "bad_input": (400, False),
    "unauthorized": (401, False),
    "forbidden": (403, False),
    "not_found": (404, False),
    "conflict": (409, False),
    "too_large": (413, False),
    "unsupported_media_type": (415, False),
    "bad_model": (422, False),
    "model_failed": (422, False),
    "rate_limited": (429, True),
    "cancelled": (409, False),
    "model_unavailable": (503, True),
    "results_unavailable": (503, True),
    "queue_unavailable": (503, True),
    "timeout": (504, True),
    "record_expired": (410, False),
    "max_receives_exceeded": (500, False),
    "bad_config": (500, False),
    "internal": (500, True),
}


def is_code(code: Any) -> bool:
    """True if a value of JSON is one of the codes."""
    return isinstance(code, str) and code in CODES


class ServingError(Exception):
    """A call or a record that failed.

    `code` is one of a fixed list, `status` the HTTP status that belongs to it, and `retryable` says whether the same
    call may succeed later. `uri` names the record, where there is one. `retry_after` is in seconds, where the service
    said it.
    """

    def __init__(self, code: str, message: str, uri: Optional[str] = None,
                 retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.code = code if is_code(code) else "internal"
        self.message = message
        self.uri = uri
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return CODES[self.code][0]

    @property
    def retryable(self) -> bool:
        """True if the same call may succeed later."""
        return CODES[self.code][1]

    def with_uri(self, uri: str) -> ServingError:
        """Returns this error with the uri of its record."""
        return ServingError(self.code, self.message, uri, self.retry_after)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> Tuple[Any, ...]:
        return ServingError, (self.code, self.message, self.uri, self.retry_after)


class Unfetched(ServingError):
    """A large result that `drain` could not fetch. It is not a failure of its record, and stays under its uri."""


def bad_request(message: str) -> ServingError:
    """The caller's argument is wrong."""
    return ServingError("bad_request", message)


def bad_config(message: str) -> ServingError:
    """A setting or a variable is wrong."""
    return ServingError("bad_config", message)


def extra(module: str, name: str) -> Any:
    """Imports a module that comes with an extra of this package. Raises ImportError, which says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise ImportError(f"this needs {error.name}: pip install 'cluster-serving[{name}]'", name=error.name) from error
