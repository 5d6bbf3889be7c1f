"""Clients of the service, and workers that call it in a loop."""
from typing import Any

from .decentralize import WKRDecentralizeCentral, WKRWorker

_OF_CLIENT = ("ConcurrentWKRClient", "Response", "WKRClient", "WKRError")

__all__ = ["WKRDecentralizeCentral", "WKRWorker", *_OF_CLIENT]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: it brings numpy, which a worker may do without.
    if name in _OF_CLIENT:
        from . import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
