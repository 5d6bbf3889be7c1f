"""Workers that call services in a loop, and the start of their supervisor."""
import logging
from typing import Any

from .._protocol.launch import Launched


class WKRWorker:
    """A client in a process of its own. Subclasses implement `get_model` and `do_work`."""

    def get_model(self, ip: str, port: int, port_out: int) -> Any:
        """Connects to one of the servers. Is called once; what it returns is passed to the other methods."""
        raise NotImplementedError("get_model is not implemented")

    def do_work(self, model: Any, logger: logging.Logger) -> Any:
        """Does one job. Is called over and over; an exception is logged, and the next call waits longer."""
        raise NotImplementedError("do_work is not implemented")

    def off_model(self, model: Any) -> Any:
        """Is called once, when the process retires."""


class WKRDecentralizeCentral(Launched):
    """Runs `wkr-decentral-start` for a class of this program.

    `args` are its flags: a list of words, a dict (`{"port": 21324, "num_client": 4}`) or a namespace of argparse.
    """

    _command_name = "wkr-decentral-start"
