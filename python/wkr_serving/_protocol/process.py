"""The parts of every process of the protocol: its two pipes, its end, and the errors that it reports."""
import ctypes
import fcntl
import importlib
import os
import platform
import queue
import re
import signal
import sys
import threading
import traceback
from typing import Any, Callable, Dict, NoReturn, Sequence

from .. import __version__
from .frames import Frame, FrameReader, Header, ProtocolError, dump_json, write_frame

PROTOCOL = 1
FAULT_BYTES = 4 * 1024
TYPE_BYTES = 128

_TRACEBACK_BYTES = 64 * 1024
_PR_SET_PDEATHSIG = 1
# Far from the numbers that a library may close or write by mistake.
_FIRST_DESCRIPTOR = 200
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_OTHER_PROTOCOL = 3
_WORKER = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class StartError(Exception):
    """The worker cannot start; `phase` says where."""

    def __init__(self, phase: str, error: BaseException) -> None:
        super().__init__(phase)
        self.phase = phase
        self.error = error


class Connection:
    """The two pipes. A thread reads ahead, so that the end of the service is seen while the worker computes."""

    def __init__(self, read_descriptor: int, write_descriptor: int) -> None:
        incoming, outgoing = _move(read_descriptor), _move(write_descriptor)
        os.register_at_fork(
            before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS),
            after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS),
            after_in_child=lambda: _forget(incoming, outgoing),
        )
        self._reader = FrameReader(open(incoming, "rb", buffering=0, closefd=False))
        self._stream = open(outgoing, "wb", buffering=64 * 1024, closefd=False)
        self._frames: "queue.SimpleQueue[Frame]" = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, header: Header, blocks: Sequence[Any] = ()) -> None:
        write_frame(self._stream, header, blocks)

    def receive(self) -> Frame:
        """Returns the next header and its blocks."""
        return self._frames.get()

    def _read(self) -> None:
        try:
            while True:
                frame = self._reader.read()
                if frame is None:
                    break
                self._frames.put(frame)
                if frame[0].get("type") == "retire":
                    return
        except BaseException as error:
            print_traceback(error)
        # The worker may never ask for the next frame. Not sys.exit(), which waits for the threads of the worker.
        os._exit(1)


def run_process(serve: Callable[[Connection], None]) -> None:
    """Runs `serve(connection)`, which opens the worker and never returns."""
    try:
        end_with_parent()
        ignore_signals()
        # A character that the encoding of the log lacks must not fail a batch.
        stdout: Any = sys.stdout
        stdout.reconfigure(line_buffering=True, errors="backslashreplace")
        connection = Connection(3, 4)
        hello = {"type": "hello", "protocol": PROTOCOL, "language": "python"}
        connection.send({**hello, "runtime": platform.python_version(), "version": __version__})
        try:
            serve(connection)
        except StartError as failed:
            connection.send({"type": "failed", "phase": failed.phase, "error": fault_with_traceback(failed.error)})
            leave(_OTHER_PROTOCOL if failed.phase == "hello" else 1)
    except BaseException as error:
        print_traceback(error)
        leave(1)


def receive_open(connection: Connection) -> Header:
    header, _ = connection.receive()
    if header.get("type") != "open":
        raise ProtocolError("malformed message: open is expected first")
    if header.get("protocol") != PROTOCOL:
        error = ProtocolError(f"this worker speaks protocol {PROTOCOL}, the service {header.get('protocol')}")
        raise StartError("hello", error)
    return header


def in_phase(phase: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException as error:
        raise StartError(phase, error) from error


def load_class(name: str, directory: str, base: Any) -> Any:
    """Imports a class such as server.Worker from a directory, which becomes the current one, as a subclass of `base`."""
    directory = os.path.abspath(directory)
    if not _WORKER.fullmatch(name):
        raise ValueError(f"{name} is not a module and class, such as server.Worker")
    module, _, kind = name.rpartition(".")
    stem = os.path.join(directory, *module.split("."))
    others = [stem + end for end in (".ts", ".mts", ".mjs", ".js") if os.path.exists(stem + end)]
    if others and os.path.exists(stem + ".py"):
        raise ValueError(f"both {stem}.py and {others[0]} exist: remove one")
    os.chdir(directory)
    sys.path.insert(0, directory)
    found = getattr(importlib.import_module(module), kind)
    if not isinstance(found, type):
        raise TypeError(f"{name} is not a class")
    # Another class may implement what it needs, and gets the rest.
    return found if issubclass(found, base) else type(found.__name__, (found, base), {})


def print_traceback(error: BaseException) -> str:
    """Writes it at once, so that it stays together in the log, and returns its lines."""
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    print(lines, end="", file=sys.stderr)
    return lines


def fault_with_traceback(error: BaseException) -> Dict[str, str]:
    lines = print_traceback(error)
    # Its end says most.
    while json_bytes(lines) > _TRACEBACK_BYTES:
        lines = lines[len(lines) // 8 + 1:]
    message = cut(text_of(error), FAULT_BYTES)
    return {"type": cut(type(error).__name__, TYPE_BYTES), "message": message, "traceback": lines}


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "its text cannot be had"


def cut(text: str, limit: int) -> str:
    text = text[:limit]
    while json_bytes(text) > limit:
        text = text[: len(text) * 7 // 8]
    return text


def json_bytes(text: str) -> int:
    return len(dump_json(text)) - 2


def end_with_parent() -> None:
    """Lets the kernel end this process with its parent, even while the worker holds the interpreter's lock.

    A parent that ended before this sends no `open`.
    """
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def ignore_signals() -> None:
    """The service retires its workers. Not SIG_IGN, which the worker's subprocesses would inherit."""
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)


def _move(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    os.close(descriptor)
    return moved


def _forget(incoming: int, outgoing: int) -> None:
    """In a process that the worker forks: it must neither hold the pipes open nor survive a request to end."""
    os.close(incoming)
    os.close(outgoing)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    # Blocked since before the fork: one that came in between would have been ignored.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def leave(code: int) -> NoReturn:
    """Ends the process without waiting for threads of the worker."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
