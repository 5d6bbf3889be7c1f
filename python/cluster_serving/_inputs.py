"""Turns the values of a record into what is sent: a safetensors file for the queue, JSON for a prediction.

The bytes are the same as those of the TypeScript SDK.
"""
from __future__ import annotations

import base64
import binascii
import json
import math
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy

from ._errors import ServingError, bad_request

# Any of: an array; a number, a text in a list, nested lists of them; None, a missing value; an image as bytes, a path,
# an open file, {"path"}, {"b64"} or {"bytes"}; a sparse tensor {"indices", "values", "shape"}.
Input = Any

IMAGE_BYTES = 32 * 1024 * 1024
_RANK = 16
_SAFE = 2**53 - 1
_SAFETENSORS = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16",
                "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL"}
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class Sparse(NamedTuple):
    """A sparse tensor (COO). `indices` is int32, ndim x nnz or nnz x ndim, counted from 0."""

    indices: Any
    values: Any
    shape: Tuple[int, ...]


class InOrder(Dict[str, Input]):
    """Inputs that bind in their order where none has a name of the model, as the former client's did."""


# An array of any dtype; texts have the dtype object. An input is that, an encoded image (bytes), or a sparse tensor.
Array = Any
Value = Any


def check_uri(uri: Any) -> str:
    """Returns a text of 1 to 1,024 bytes without control characters, or raises bad_request."""
    if not isinstance(uri, str) or not uri:
        got = "an empty text" if uri == "" else kind_of(uri)
        raise bad_request(f"uri: expected a text of 1 to 1024 bytes, got {got}")
    try:
        size = len(uri.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    if not size or _CONTROL.search(uri):
        raise bad_request("uri: control characters and lone surrogates are not allowed")
    if size > 1024:
        raise bad_request(f"uri: {size} bytes are over the limit of 1024")
    return uri


def kind_of(value: Any) -> str:
    """The name of a value's type, for messages."""
    return "nothing" if value is None else f"a {type(value).__name__}"


def read_inputs(inputs: Mapping[str, Input]) -> Dict[str, Value]:
    """Reads the inputs of one record by name, in their order. Raises bad_request, which names the input."""
    if not isinstance(inputs, Mapping):
        raise bad_request(f"inputs: expected a dict of inputs by name, got {kind_of(inputs)}")
    if not inputs:
        raise bad_request("a record needs at least one input")
    values: Dict[str, Value] = {}
    for name, value in inputs.items():
        if not isinstance(name, str):
            raise bad_request(f"the name of an input: expected a text, got {kind_of(name)}")
        try:
            values[name] = _read(value)
        except ServingError as error:
            raise ServingError(error.code, f'input "{name}": {error.message}') from error
    return values


def record_of(uri: str, inputs: Mapping[str, Input]) -> bytes:
    """The JSON of a record: `uri`, `data` and `serde`."""
    file = _safetensors(read_inputs(inputs), isinstance(inputs, InOrder))
    data = base64.b64encode(file).decode("ascii")
    return dump({"uri": check_uri(uri), "data": data, "serde": "safetensors"})


def instance_of(inputs: Mapping[str, Input]) -> Dict[str, Any]:
    """The inputs as an instance of `POST /predict`."""
    return {name: _json_of(name, value) for name, value in read_inputs(inputs).items()}


def dump(value: Any) -> bytes:
    """JSON as JavaScript writes it, but for two code points that SQS takes in no message."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff").encode("utf-8")
    except UnicodeEncodeError:
        raise bad_request("a text has half of a surrogate pair, which is not a character") from None


def _read(value: Input) -> Value:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _image(value)
    if isinstance(value, (str, os.PathLike)):
        return _file(value)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return _array(numpy.asanyarray(value))
    if value is None:
        return numpy.array(numpy.nan, dtype=numpy.float32)
    if isinstance(value, (bool, int, float, list, tuple)):
        return _nested(value)
    if callable(getattr(value, "read", None)):
        return _image(value.read(IMAGE_BYTES + 1))
    if not isinstance(value, Mapping):
        raise bad_request(f"expected numbers, texts, an array or an image, got {kind_of(value)}")
    if "path" in value:
        return _file(value["path"])
    if "b64" in value:
        return _from_base64(value["b64"])
    if "bytes" in value:
        return _image(value["bytes"])
    if "indices" in value and "values" in value and "shape" in value:
        return _sparse(value["indices"], value["values"], value["shape"])
    raise bad_request("expected a path, {path}, {b64}, {bytes}, numbers, texts, an array or {indices, values, shape}, "
                      f"got a dict with the keys {sorted(map(str, value))!r:.200}")


def _image(data: Any) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise bad_request(f"an image: expected bytes, got {kind_of(data)} (a file has to be open for reading bytes)")
    image = bytes(data)
    if len(image) > IMAGE_BYTES:
        raise ServingError("too_large", f"an image is over the limit of {IMAGE_BYTES} bytes")
    return image


def _file(path: Any) -> bytes:
    try:
        with open(path, "rb") as file:
            return _image(file.read(IMAGE_BYTES + 1))
    except (OSError, TypeError, ValueError) as error:
        # A bare text is a path, which is easily forgotten.
        raise bad_request(f"cannot read the image file (a text is a path; write a list for texts): {error}") from error


def _from_base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise bad_request(f"b64: expected a text, got {kind_of(text)}")
    try:
        # As the service reads it: url-safe too, and without padding.
        digits = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/").encode("ascii")
        return _image(base64.b64decode(digits + b"=" * (-len(digits) % 4), validate=True))
    except (UnicodeEncodeError, binascii.Error) as error:
        raise bad_request(f"b64: {error}") from error


def _array(array: Array) -> Array:
    if isinstance(array, numpy.ma.MaskedArray):
        raise bad_request("a masked array cannot be sent: fill it first")
    if array.ndim > _RANK:
        raise ServingError("too_large", f"{array.ndim} dimensions are over the limit of {_RANK}")
    if array.dtype.kind in "UO":
        if not all(isinstance(text, str) for text in array.reshape(-1).tolist()):
            raise bad_request(f"an array of {array.dtype} whose elements are not all texts cannot be sent")
        return array.astype(object)
    if array.dtype.newbyteorder("=").name not in _SAFETENSORS:
        raise bad_request(f"an array of {array.dtype} has no type of ONNX")
    return array


def _nested(value: Any) -> Array:
    shape: List[int] = []
    level = value
    while isinstance(level, (list, tuple)):
        if len(shape) == _RANK:
            raise ServingError("too_large", f"lists are nested deeper than {_RANK}")
        if not level:
            raise bad_request("a list is empty, expected at least one element")
        shape.append(len(level))
        level = level[0]
    if isinstance(level, numpy.ndarray):
        raise bad_request("a list of arrays cannot be sent: make one with numpy.stack, or {indices, values, shape}")
    leaves: List[Any] = []
    _flatten(value, shape, 0, leaves)
    if isinstance(level, str):
        if not all(isinstance(leaf, str) for leaf in leaves):
            raise bad_request("a list has texts and something else")
        array: Array = numpy.empty(len(leaves), dtype=object)
        array[:] = leaves
        return array.reshape(shape)
    return _narrowed([_number(leaf) for leaf in leaves]).reshape(shape)


def _flatten(value: Any, shape: Sequence[int], axis: int, leaves: List[Any]) -> None:
    is_list = isinstance(value, (list, tuple))
    if is_list != (axis < len(shape)) or (is_list and len(value) != shape[axis]):
        got = f"{len(value)} elements" if is_list else kind_of(value)
        raise bad_request(f"lists do not agree in shape: expected {list(shape)}, got {got} at depth {axis}")
    if not is_list:
        leaves.append(value)
        return
    for item in value:
        _flatten(item, shape, axis + 1, leaves)


def _number(leaf: Any) -> float:
    if isinstance(leaf, numpy.generic):
        leaf = leaf.item()
    if not isinstance(leaf, (bool, int, float)):
        raise bad_request(f"expected a number, got {kind_of(leaf)}")
    try:
        number = float(leaf)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise bad_request("a number is out of the range of float64")
    if number == number and number != leaf:
        raise bad_request(f"{leaf} is not a float64: send an array with a dtype")
    return number


def _narrowed(numbers: List[float]) -> Array:
    """float32, which takes half the bytes, if it represents every number exactly; else float64."""
    wide = numpy.array(numbers, dtype=numpy.float64)
    with numpy.errstate(all="ignore"):
        narrow = wide.astype(numpy.float32)
    return narrow if numpy.array_equal(narrow, wide, equal_nan=True) else wide


def _sparse(indices: Any, values: Any, shape: Any) -> Sparse:
    whole = _whole(indices, 2, "indices: expected whole numbers of int32, with one row per dimension, or one per value")
    dims = tuple(_whole(shape, 1, f"shape: expected 1 to {_RANK} whole numbers").tolist())
    if not 1 <= len(dims) <= _RANK or min(dims) < 0:
        raise bad_request(f"shape: expected 1 to {_RANK} whole numbers, got {list(dims)!r:.80}")
    is_array = isinstance(values, numpy.ndarray)
    read = _array(values) if is_array else _nested(list(values) if isinstance(values, Sequence) else values)
    if read.dtype.kind == "O" or read.ndim != 1:
        raise bad_request("values: expected numbers in one dimension")
    if whole.shape not in ((len(dims), len(read)), (len(read), len(dims))):
        raise bad_request(f"indices of shape {list(whole.shape)} do not fit {len(read)} values in {len(dims)} "
                          "dimensions")
    return Sparse(whole, read, dims)


def _whole(value: Any, rank: int, expected: str) -> Array:
    try:
        numbers = numpy.asarray(value)
    except ValueError as error:
        # The lists have unequal lengths.
        raise bad_request(expected) from error
    if numbers.dtype.kind in "iuf" and numbers.ndim == rank:
        with numpy.errstate(all="ignore"):
            whole = numbers.astype(numpy.int32)
        if numpy.array_equal(whole, numbers):
            return whole
    raise bad_request(expected)


def _safetensors(values: Mapping[str, Value], by_position: bool) -> bytes:
    kinds: Dict[str, str] = {"bindByPosition": "true"} if by_position else {}
    tensors: Dict[str, Array] = {}
    for name, value in values.items():
        if isinstance(value, bytes):
            tensors[name] = numpy.frombuffer(value, dtype=numpy.uint8)
            kinds[f"kind:{name}"] = "image"
        elif isinstance(value, Sparse):
            tensors[name] = value.values
            tensors[f"{name}/indices"] = value.indices
            kinds[f"kind:{name}"] = "sparse:" + ",".join(map(str, value.shape))
            kinds[f"kind:{name}/indices"] = "indices"
        else:
            tensors[name] = value
    entries: Dict[str, Any] = {}
    parts: List[bytes] = []
    offset = 0
    # Widest first, so that every tensor starts on its own alignment.
    for name, tensor in sorted(tensors.items(), key=lambda item: -_width(item[1])):
        data = _bytes_of(tensor)
        dtype, shape = "U8", [len(data)]
        if tensor.dtype.kind == "O":
            kinds[f"kind:{name}"] = "strings:" + ",".join(map(str, tensor.shape))
        else:
            dtype, shape = _SAFETENSORS[tensor.dtype.newbyteorder("=").name], list(tensor.shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    # In the caller's order: position matters for the former client's names.
    header = dump({**({"__metadata__": kinds} if kinds else {}), **{name: entries[name] for name in tensors}})
    padded = header + b" " * (-len(header) % 8)
    return b"".join([len(padded).to_bytes(8, "little"), padded, *parts])


def _width(tensor: Any) -> int:
    return 1 if tensor.dtype.kind == "O" else int(tensor.dtype.itemsize)


def _bytes_of(tensor: Any) -> bytes:
    if tensor.dtype.kind == "O":
        return dump(tensor.reshape(-1).tolist())
    data: bytes = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes()
    return data


def _json_of(name: str, value: Value) -> Any:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Sparse):
        # One row per dimension wins where both fit, as in a record. Over HTTP one row per point does.
        points = value.indices.T if len(value.indices) == len(value.shape) else value.indices
        return {"shape": list(value.shape), "data": _json_of(name, value.values), "indices": points.tolist()}
    if value.dtype.kind == "f" and not numpy.isfinite(value).all():
        if numpy.isinf(value).any():
            raise bad_request(f'input "{name}": JSON has no infinity; use enqueue')
        value = value.astype(object)
        value[value != value] = None
    if value.dtype.kind in "iu" and ((value > _SAFE) | (value < -_SAFE)).any():
        raise bad_request(f'input "{name}": JSON has no whole numbers beyond 2^53; use enqueue')
    return value.tolist()
