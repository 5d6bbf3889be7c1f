"""The base class of workers."""
import importlib
import logging
import os
import threading
from collections import deque
from typing import Any, Callable, Iterable, List, Tuple

from .._protocol.launch import Launched
from .._protocol.logger import new_logger
from . import helper

__all__ = ["WKRHardWorker", "WKROnnxWorker", "WKRServer"]

# Between two batches.
_SAMPLES = 4_096


class WKRHardWorker:
    """A model and the code around it, in a process of its own. Subclasses implement `get_model` and `predict`."""

    worker_id = 0
    # -1 is the CPU.
    device_id = -1
    transfer_proto = "obj"
    tmp_folder = ""
    model_dir = ""
    model_name = ""
    batch_size = 1
    gpu_memory_fraction = 0.2
    verbose = False
    log_name = "WKRServer"

    # False: when predict raises, its whole batch fails. Otherwise each item runs once more, alone.
    retry_alone = True
    # The form in which `predict` gets an image: "pil" (a Pillow image), "rgb" (a uint8 array, height x width x 3), or
    # "bytes".
    image_as = "pil"

    _statistics_lock = threading.Lock()

    def get_env(self, device_id: int, tmp_dir: str) -> Any:
        """Imports libraries. What it returns is passed to the other methods."""

    def get_preprocess(self, envs: Any) -> Callable[[Any], Any]:
        """Returns a function from what `batching` made to the input of `predict`."""
        return _identity

    def get_postprocess(self, envs: Any) -> Callable[[Any], Any]:
        """Returns a function from the result of `predict` to the answers, one for each item."""
        return _identity

    def get_model(self, envs: Any, model_dir: str, model_name: str, tmp_dir: str) -> Any:
        """Loads the model."""
        raise NotImplementedError("get_model is not implemented")

    def batching(self, items: List[Any]) -> Any:
        """Makes one input of the items: their list, or for the protocol npy one array with a new first axis."""
        if self.transfer_proto != "npy":
            return items
        import numpy

        return numpy.stack(items)

    def predict(self, model: Any, input: Any) -> Any:
        """Returns a list, tuple or array with one answer for each item; an exception fails its item."""
        raise NotImplementedError("predict is not implemented")

    def off_model(self, model: Any) -> Any:
        """Is called once, when the process retires."""

    def new_logger(self) -> logging.Logger:
        """Returns a logger with `debug`, `info`, `warning` and `error`, which goes to the log of the service."""
        return new_logger(f"{self.log_name} worker {self.worker_id}", self.verbose)

    def record_statistic(self, statistic: Any) -> None:
        """Records one sample for each name: `{"batchsize": 4}`. A value that is not a number is omitted, with a warning."""
        items = statistic.items() if isinstance(statistic, dict) else [(type(statistic).__name__, statistic)]
        for name, value in items:
            sample = helper.sample_of(value)
            if sample is None or not isinstance(name, str):
                self.new_logger().warning("record_statistic: %s is not a number", name)
                continue
            with self._statistics_lock:
                self.__dict__.setdefault("_statistics", deque(maxlen=_SAMPLES)).append((name, sample))

    def _take_statistics(self) -> Iterable[Tuple[str, float]]:
        """The names and samples that were recorded since the last call, or the last of them."""
        with self._statistics_lock:
            taken: Iterable[Tuple[str, float]] = self.__dict__.pop("_statistics", ())
            return taken


class WKROnnxWorker(WKRHardWorker):
    """Opens the ONNX file `model_dir/model_name` and runs it. What comes before and after is left to subclasses.

    Needs onnxruntime.
    """

    # Threads of one run in one process; 0 is one for each core.
    threads = 1

    def get_model(self, envs: Any, model_dir: str, model_name: str, tmp_dir: str) -> Any:
        """Opens the file: an `onnxruntime.InferenceSession`."""
        if not model_name:
            raise ValueError("the name of the ONNX file is missing (worker.modelName, -model_name)")
        # Read at the import: without it, some versions write an id to the home folder, to be sent to Microsoft.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        try:
            onnxruntime = importlib.import_module("onnxruntime")
        except ModuleNotFoundError as error:
            if error.name != "onnxruntime":
                raise
            raise RuntimeError("WKROnnxWorker needs onnxruntime: pip install onnxruntime "
                               "(for a GPU: onnxruntime-gpu)") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        # Threads that spin take the cores from the other processes.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # They change answers: one gives a MaxPool the zeros of the Pad before it as its own, the other reads a Range that
        # begins below 0 as an empty slice.
        wrong = "Pad_Fusion;GatherToSliceFusion"
        options.add_session_config_entry("optimization.disable_specified_optimizers", wrong)
        if not _has_exact_sums():
            options.add_session_config_entry("session.x64quantprecision", "1")
        # A process sees no device but its own, which is then the first.
        provider = "CPUExecutionProvider" if self.device_id < 0 else "CUDAExecutionProvider"
        session = onnxruntime.InferenceSession(os.path.join(model_dir, model_name), options, providers=[provider])
        # onnxruntime takes the CPU where it cannot use the GPU.
        if session.get_providers()[0] != provider:
            raise RuntimeError(f"onnxruntime cannot use the GPU: it has {session.get_providers()}")
        return session

    def predict(self, model: Any, input: Any) -> Any:
        """Runs the model once.

        `input` is an array, or a list of arrays, which are stacked; for several inputs, a dict of arrays. Returns the
        output; of several, a dict by name for each row.
        """
        names = [each.name for each in model.get_inputs()]
        if not isinstance(input, dict):
            if len(names) != 1:
                raise TypeError(f"predict takes a dict with an array for each of the inputs {names}")
            import numpy

            input = {names[0]: numpy.stack(input) if isinstance(input, list) else input}
        outputs = model.run(None, input)
        if len(outputs) == 1:
            return outputs[0]
        lengths = [len(output) for output in outputs]
        if len(set(lengths)) > 1:
            raise ValueError(f"the outputs have {lengths} rows")
        labels = [each.name for each in model.get_outputs()]
        return [dict(zip(labels, row)) for row in zip(*outputs)]


class WKRServer(Launched):
    """Runs `wkr-serving-start` for a worker of this program.

    `args` are its flags: a namespace of `get_args_parser`, a dict, or a list of words.
    """

    _command_name = "wkr-serving-start"
    # Accepted items have 30 s by default.
    _stop_s = 45

    def __init__(self, args: Any, hardprocesser: Any) -> None:
        super().__init__(hardprocesser, args)


def _has_exact_sums() -> bool:
    """True if this processor adds products of int8 exactly. Others saturate, unless onnxruntime is asked not to."""
    try:
        with open("/proc/cpuinfo", encoding="latin-1") as file:
            words = file.read().split()
    except OSError:
        return False
    return "avx512_vnni" in words or "avx_vnni" in words


def _identity(value: Any) -> Any:
    return value
