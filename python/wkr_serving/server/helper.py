"""The flags of the service, and imports of libraries that set the device and the memory of the GPU first."""
import argparse
import importlib
import math
import numbers
import os
import subprocess
from typing import Any, Dict, Optional

_TRUE = ("-cpu", "-http_new", "-http_stat_dashboard", "-verbose", "-no_token", "-watch")
_NUMBERS: Dict[str, Optional[int]] = {
    "-port": None, "-port_in": None, "-port_data": None, "-port_out": None, "-port_result": None,
    "-http_port": None, "-num_worker": 1, "-batch_size": 10, "-batch_group_timeout": 5,
    "-num_worker_expanded": 0, "-duration_expand": 300_000, "-duration_squeeze": 600_000,
    "-http_max_connect": 100, "-http_concurent_retry_num": 100,
    "-predict_timeout": 30_000, "-start_timeout": 120_000, "-stop_timeout": 30_000, "-max_batches": 0,
    "-memory_mb": 0,
}
_FRACTIONS = {"-gpu_memory_fraction": 0.2, "-busy_util_threshold": 0.95, "-http_concurent_retry_gap": 0.05}
_TEXTS = {
    "-model_dir": ".", "-model_name": None, "-log_dir": None, "-log_name": "WKRServer", "-cors": None,
    "-tmp_folder": "tmp_wkr", "-host": "127.0.0.1", "-token_file": None, "-allow_img_host": None,
    "-python": "python3",
}
_DEVICES = {"-device_map": [-1], "-device_to_expand": [0]}

# The options with which the service was started, for the imports below.
_gpu_memory_fraction = 0.2


def get_args_parser() -> argparse.ArgumentParser:
    """Returns the parser of the flags of `wkr-serving-start`."""
    parser = argparse.ArgumentParser(prog="wkr-serving-start")
    for flag in _TRUE:
        parser.add_argument(flag, action="store_true")
    for flag, default in _NUMBERS.items():
        parser.add_argument(flag, type=int, default=default)
    for flag, fraction in _FRACTIONS.items():
        parser.add_argument(flag, type=float, default=fraction)
    for flag, text in _TEXTS.items():
        parser.add_argument(flag, default=text)
    for flag, devices in _DEVICES.items():
        parser.add_argument(flag, type=int, nargs="+", default=devices)
    parser.add_argument("-protocol", choices=["obj", "npy", "numpy"], default="obj")
    return parser


def set_gpu_memory_fraction(fraction: float) -> None:
    """Sets the share of a GPU's memory that the imports below allow. The service calls it."""
    global _gpu_memory_fraction
    _gpu_memory_fraction = fraction


def import_tf(device_id: int = -1, verbose: bool = False, use_fp16: bool = False) -> Any:
    """Imports TensorFlow for one device; -1 is the CPU."""
    _show_device(device_id)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0" if verbose else "3"
    os.environ["TF_ENABLE_AUTO_MIXED_PRECISION"] = "1" if use_fp16 else "0"
    tensorflow: Any = importlib.import_module("tensorflow")
    config: Any = getattr(tensorflow, "config", None)
    for gpu in config.list_physical_devices("GPU") if device_id >= 0 and config else []:
        megabytes = _gpu_megabytes(device_id)
        if megabytes is None:
            config.experimental.set_memory_growth(gpu, True)
        else:
            limit = config.LogicalDeviceConfiguration(memory_limit=int(megabytes * _gpu_memory_fraction))
            config.set_logical_device_configuration(gpu, [limit])
    return tensorflow


def import_torch(device_id: int = -1, verbose: bool = False, use_fp16: bool = False) -> Any:
    """Imports PyTorch for one device; -1 is the CPU."""
    _show_device(device_id)
    torch = importlib.import_module("torch")
    if device_id >= 0 and torch.cuda.is_available():
        # The one that is visible.
        torch.cuda.set_per_process_memory_fraction(_gpu_memory_fraction, 0)
    if use_fp16:
        torch.set_default_dtype(torch.float16)
    return torch


def import_mxnet(device_id: int = -1, verbose: bool = False, use_fp16: bool = False) -> Any:
    """Imports MXNet for one device; -1 is the CPU. It has no setting for half precision."""
    _show_device(device_id)
    os.environ["MXNET_GPU_MEM_POOL_RESERVE"] = str(round(100 * (1 - _gpu_memory_fraction)))
    os.environ["MXNET_CUDNN_AUTOTUNE_DEFAULT"] = "1" if verbose else "0"
    return importlib.import_module("mxnet")


def sample_of(value: Any) -> Optional[float]:
    """Returns a statistic as a float, or None for anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        # The numbers of numpy are numbers, its booleans are not.
        return None
    try:
        sample = float(value)
    except OverflowError:
        return None
    return sample if math.isfinite(sample) else None


def _show_device(device_id: int) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = str(device_id) if device_id >= 0 else "-1"


def _gpu_megabytes(device_id: int) -> Optional[float]:
    command = ["nvidia-smi", f"--id={device_id}", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        return float(subprocess.run(command, capture_output=True, check=True, timeout=10).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
