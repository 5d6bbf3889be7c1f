"""The process of a decentralized client: `python3 -m wkr_serving._protocol.decentral_loop`.

It calls `do_work` over and over until it is retired, and reports how that goes.
"""
import threading
from typing import Any, Dict, Optional

from ..client import WKRWorker
from .frames import ProtocolError
from .logger import new_logger
from .process import (FAULT_BYTES, Connection, cut, in_phase, leave, load_class, print_traceback, receive_open,
                      run_process, text_of)

_LEAST_PAUSE_S = 0.03
_MOST_PAUSE_S = 5.0
# Between two reports.
_REPORT_S = 0.2


def pause_s(failures: int) -> float:
    """Returns how long to wait after that many failed calls in a row."""
    return min(_MOST_PAUSE_S, _LEAST_PAUSE_S * 2.0 ** min(failures - 1, 16))


def serve(connection: Connection) -> None:
    opened = receive_open(connection)
    worker = in_phase("load", lambda: load_class(opened["worker"], opened["directory"], WKRWorker)())
    connection.send({"type": "loaded"})
    model = in_phase("get_model", lambda: worker.get_model(opened["ip"], opened["port"], opened["portOut"]))
    connection.send({"type": "ready"})
    retiring = threading.Event()
    threading.Thread(target=_await_retire, args=(connection, retiring), daemon=True).start()
    progress = _Progress(connection)
    logger = new_logger(opened["logName"], opened["verbose"])
    failures = 0
    while not retiring.is_set():
        try:
            worker.do_work(model, logger)
            failures = 0
            progress.add()
        except BaseException as error:
            # SystemExit too: a client that ends by itself would be restarted, with its model.
            failures += 1
            progress.add(error)
            logger.error("do_work failed", exc_info=True)
            retiring.wait(pause_s(failures))
    try:
        worker.off_model(model)
    except BaseException as error:
        print_traceback(error)
    progress.report()
    connection.send({"type": "retired"})
    leave(0)


class _Progress:
    """Counts calls. A thread reports the counts, so that they are known while a call takes long."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._counts: Dict[str, Any] = {"done": 0, "failed": 0, "lastError": ""}
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, error: Optional[BaseException] = None) -> None:
        with self._lock:
            if error is None:
                self._counts["done"] += 1
            else:
                self._counts["failed"] += 1
                self._counts["lastError"] = cut(f"{type(error).__name__}: {text_of(error)}", FAULT_BYTES)
        self._changed.set()

    def report(self) -> None:
        # The lock keeps the reports in their order, and their frames whole.
        with self._lock:
            self._connection.send({"type": "progress", **self._counts})

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._changed.wait()
            self._changed.clear()
            self.report()
            pause.wait(_REPORT_S)


def _await_retire(connection: Connection, retiring: threading.Event) -> None:
    try:
        header, _ = connection.receive()
        if header.get("type") != "retire":
            raise ProtocolError("malformed message: unknown type")
        retiring.set()
    except BaseException as error:
        print_traceback(error)
        leave(1)


if __name__ == "__main__":
    run_process(serve)
