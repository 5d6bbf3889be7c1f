"""Starts a command of the npm package for a class of the program that runs."""
import os
import signal
import subprocess
import sys
from typing import Any, List, Optional, Tuple


class Launched:
    """A service in a process of its own. `args` are its flags: words, a dict, or a namespace of argparse."""

    _command_name = ""
    # How long close() waits before it kills the service.
    _stop_s = 15

    def __init__(self, cls: Any, args: Any) -> None:
        module, directory = _module_of(cls)
        self._command = [self._command_name, f"{module}.{cls.__qualname__}", *_words(args)]
        self._directory = directory
        self._process: Optional["subprocess.Popen[bytes]"] = None

    def start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            raise RuntimeError("start() was called before, and what it started still runs")
        # A group of its own: Ctrl-C reaches it through close() alone, once.
        try:
            self._process = subprocess.Popen(self._command, cwd=self._directory, start_new_session=True)
        except FileNotFoundError as error:
            raise RuntimeError(f"{self._command_name} is not on the PATH; it comes with the npm package") from error

    def join(self) -> int:
        """Waits until the service has ended and returns its exit code."""
        if self._process is None:
            raise RuntimeError("start() was not called")
        return self._process.wait()

    def close(self) -> None:
        """Lets the service finish what it has accepted, and ends it."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(self._stop_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "Launched":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _module_of(cls: Any) -> Tuple[str, str]:
    file = getattr(sys.modules[cls.__module__], "__file__", None)
    if file is None:
        raise RuntimeError(f"{cls.__name__} is in no file, so that no other process can import it: put it into a module")
    path = os.path.abspath(file)
    if cls.__module__ != "__main__":
        # As many folders up as the name has dots.
        return cls.__module__, os.path.abspath(os.path.join(path, *[os.pardir] * (cls.__module__.count(".") + 1)))
    return os.path.splitext(os.path.basename(path))[0], os.path.dirname(path)


def _words(args: Any) -> List[str]:
    if isinstance(args, (list, tuple)):
        return [str(word) for word in args]
    words = []
    for name, value in (args if isinstance(args, dict) else vars(args)).items():
        if value is None or value is False:
            continue
        words.append(f"-{name}")
        if value is not True:
            # A flag of argparse that takes several words.
            split = isinstance(value, list) and all(isinstance(word, (str, int)) for word in value)
            words.append(" ".join(map(str, value)) if split else str(value))
    return words
