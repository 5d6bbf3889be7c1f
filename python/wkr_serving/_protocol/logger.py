"""Loggers that write to stdout and errors to stderr: the service puts one into its .log, the other into its .err."""
import logging
import sys
from typing import Any, Callable

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def new_logger(name: str, verbose: bool) -> logging.Logger:
    """Returns a logger with `debug`, `info`, `warning` and `error`."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(_handler(sys.stdout, lambda record: record.levelno < logging.ERROR))
        logger.addHandler(_handler(sys.stderr, lambda record: record.levelno >= logging.ERROR))
    return logger


def _handler(stream: Any, is_for: Callable[[logging.LogRecord], bool]) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.addFilter(is_for)
    return handler
