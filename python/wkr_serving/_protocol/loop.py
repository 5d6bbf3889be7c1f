"""The process of a worker: `python3 -m wkr_serving._protocol.loop`, with frames on the descriptors 3 and 4."""
import importlib
import io
import os
import shutil
import tempfile
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import numpy

from ..server import WKRHardWorker, helper
from .frames import Header, ProtocolError
from .process import (FAULT_BYTES, TYPE_BYTES, Connection, StartError, cut, in_phase, json_bytes, leave, load_class,
                      print_traceback, receive_open, run_process, text_of)
from .values import ValueReader, ValueWriter

_FAULTS_BYTES = 256 * 1024
_SAMPLE_NAMES = 64


class BatchError(Exception):
    """A whole batch fails; `kind` says why."""

    def __init__(self, kind: str, name: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name


def serve(connection: Connection) -> None:
    job = Job(receive_open(connection))
    connection.send({"type": "ready", "retryAlone": bool(job.worker.retry_alone), "imageAs": job.image_as})
    while True:
        header, blocks = connection.receive()
        if header.get("type") == "run":
            connection.send(*job.run(header, blocks))
        elif header.get("type") == "retire":
            job.close()
            connection.send({"type": "retired"})
            leave(0)
        else:
            raise ProtocolError("malformed message: unknown type")


class Job:
    """A worker that is loaded, and its model."""

    def __init__(self, opened: Header) -> None:
        worker = self.worker = in_phase("load", lambda: self._load(opened))
        try:
            envs = in_phase("get_env", lambda: worker.get_env(worker.device_id, self.tmp_dir))
            self._preprocess = in_phase("get_preprocess", lambda: _function(worker.get_preprocess(envs)))
            self._postprocess = in_phase("get_postprocess", lambda: _function(worker.get_postprocess(envs)))
            self._model = in_phase(
                "get_model", lambda: worker.get_model(envs, worker.model_dir, worker.model_name, self.tmp_dir))
        except StartError:
            # The service may start it again and again.
            shutil.rmtree(self.tmp_dir, ignore_errors=True)
            raise

    def run(self, header: Header, blocks: List[bytearray]) -> Tuple[Header, List[Any]]:
        """Returns the answer to a batch: its header and its blocks."""
        answer = {"type": "result", "id": header["id"]}
        items, faults = self._read(header["items"], blocks)
        try:
            results = iter(self._predict(items) if items else [])
            writer, budget = ValueWriter(), _FaultBudget()
            answer["outcomes"] = [
                {"error": budget.take(fault)} if fault is not None else _outcome(next(results), i, writer, budget)
                for i, fault in enumerate(faults)
            ]
            blocks = writer.blocks
        except BatchError as error:
            failed = {"type": cut(error.name, TYPE_BYTES), "message": cut(str(error), FAULT_BYTES)}
            answer["failed"], blocks = {"kind": error.kind, **failed}, []
        answer["statistics"] = _statistics(self.worker._take_statistics())
        return answer, blocks

    def close(self) -> None:
        try:
            self.worker.off_model(self._model)
        except Exception as error:
            print_traceback(error)
        shutil.rmtree(self.tmp_dir, ignore_errors=True)

    def _load(self, opened: Header) -> Any:
        worker = load_class(opened["worker"], opened["directory"], WKRHardWorker)()
        worker.worker_id, worker.device_id = opened["workerId"], opened["deviceId"]
        worker.transfer_proto, worker.tmp_folder = opened["transferProto"], opened["tmpFolder"]
        worker.model_dir, worker.model_name = opened["modelDir"], opened["modelName"]
        worker.batch_size, worker.gpu_memory_fraction = opened["batchSize"], opened["gpuMemoryFraction"]
        worker.verbose, worker.log_name = opened["verbose"], opened["logName"]
        self.image_as = worker.image_as
        if self.image_as not in ("pil", "rgb", "bytes"):
            raise ValueError(f"image_as is {self.image_as!r}, not pil, rgb or bytes")
        helper.set_gpu_memory_fraction(worker.gpu_memory_fraction)
        os.makedirs(worker.tmp_folder, exist_ok=True)
        self.tmp_dir = tempfile.mkdtemp(prefix=f"worker-{worker.worker_id}-", dir=worker.tmp_folder)
        return worker

    def _read(self, values: List[Any], blocks: List[bytearray]) -> Tuple[List[Any], List[Optional[Exception]]]:
        """Returns the items, and for every slot of the batch None or the error of an image that cannot be read."""
        images = _Images(self.image_as)
        reader = ValueReader(blocks, images.read)
        items: List[Any] = []
        faults: List[Optional[Exception]] = []
        for value in values:
            images.error = None
            item = reader.read(value)
            if images.error is None:
                items.append(item)
            faults.append(images.error)
        reader.end()
        return items, faults

    def _predict(self, items: List[Any]) -> List[Any]:
        try:
            given = self._preprocess(self.worker.batching(items))
            result = self.worker.predict(self._model, given)
            _check_length(result, items)
            result = self._postprocess(result)
            _check_length(result, items)
            return list(result)
        except BatchError:
            raise
        except BaseException as error:
            # SystemExit too: a process that ends by itself would fail the batch as well.
            print_traceback(error)
            raise BatchError("raised", type(error).__name__, text_of(error)) from error


class _Images:
    def __init__(self, form: str) -> None:
        self._form = form
        self.error: Optional[Exception] = None

    def read(self, data: bytes) -> Any:
        if self._form == "bytes":
            return data
        try:
            if self._form == "rgb":
                raise ProtocolError("an image is encoded, and the worker takes pixels")
            return _open_image(data)
        except Exception as error:
            self.error = error
            return None


def _open_image(data: bytes) -> Any:
    try:
        Image = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ImportError('Pillow is not installed: install it, or set image_as to "rgb" or "bytes"') from error
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


class _FaultBudget:
    """Keeps the errors of a large batch within a header."""

    def __init__(self) -> None:
        self._left = _FAULTS_BYTES

    def take(self, error: BaseException) -> Dict[str, str]:
        name = cut(type(error).__name__, min(TYPE_BYTES, self._left))
        self._left -= json_bytes(name)
        message = cut(text_of(error), min(FAULT_BYTES, self._left))
        self._left -= json_bytes(message)
        return {"type": name, "message": message}


def _outcome(result: Any, index: int, writer: ValueWriter, budget: _FaultBudget) -> Dict[str, Any]:
    if isinstance(result, BaseException):
        return {"error": budget.take(result)}
    try:
        return {"value": writer.write(result, f"result[{index}]")}
    except Exception as error:
        return {"error": budget.take(error)}


def _check_length(result: Any, items: List[Any]) -> None:
    scalar = isinstance(result, numpy.ndarray) and result.ndim == 0
    if scalar or not isinstance(result, (list, tuple, numpy.ndarray)):
        raise BatchError("shape", "TypeError", f"the result is a {type(result).__name__}, not a list, tuple or array")
    if len(result) != len(items):
        raise BatchError("length", "ValueError", f"{len(result)} results for {len(items)} items")


def _statistics(samples: Iterable[Tuple[str, float]]) -> Dict[str, List[float]]:
    statistics: Dict[str, List[float]] = {}
    for name, sample in samples:
        name = cut(name, TYPE_BYTES)
        if name in statistics or len(statistics) < _SAMPLE_NAMES:
            statistics.setdefault(name, []).append(sample)
    return statistics


def _function(value: Any) -> Callable[[Any], Any]:
    if not callable(value):
        raise TypeError(f"it returned a {type(value).__name__}, not a function")
    function: Callable[[Any], Any] = value
    return function


if __name__ == "__main__":
    run_process(serve)
