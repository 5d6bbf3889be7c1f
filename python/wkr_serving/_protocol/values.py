"""Values in a frame: JSON, tagged objects for what JSON lacks, and blocks for bytes and arrays.

Nothing that is read is run: there is no pickle and no eval.
"""
import io
import math
import re
import sys
from datetime import datetime
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set

import numpy

from .frames import BLOCK_BYTES, BLOCKS, SAFE, ProtocolError, dump_json, is_count, parse_json

TAG = "$t"
DEPTH = 64
RANK = 32
JSON_BYTES = 32 * 1024 * 1024
DIGITS = 4_096
DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64",
          "uint8", "uint16", "uint32", "uint64", "bool")

# Limit for values in the header; the rest of its 1 MiB is for the message around them.
_HEADER_BYTES = 384 * 1024
# A value that may be longer as JSON goes to a block.
_INLINE_BYTES = 16 * 1024
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}
_INTEGER = re.compile(r"-?[1-9][0-9]*")
_DATETIME = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}(\d{3})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{6})?)?)?", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALARS = (type(None), bool, int, float, str, bytes, datetime, numpy.generic)


class ValueWriter:
    """Writes the values of one frame, and collects its blocks."""

    def __init__(self) -> None:
        self.blocks: List[Any] = []
        self._block_bytes = 0
        self._header_bytes = 0
        self._size = 0
        self._path: List[str] = []

    def write(self, value: Any, name: str) -> Any:
        """Returns the value for the header; `name` begins the path in an error.

        Raises TypeError with the path of what cannot be sent. The blocks are then as they were before.
        """
        count, block_bytes = len(self.blocks), self._block_bytes
        self._path, self._size = [name], 0
        try:
            written = self._value(value, 0)
            if self._size <= _INLINE_BYTES and self._header_bytes + self._size <= _HEADER_BYTES:
                self._header_bytes += self._size
                return written
            text = dump_json(written)
            if len(text) > JSON_BYTES:
                raise self._refuse(f"is over the limit of {JSON_BYTES} bytes as JSON")
            return {TAG: "json", "b": self._block(text)}
        except BaseException:
            del self.blocks[count:]
            self._block_bytes = block_bytes
            raise

    def _value(self, value: Any, depth: int) -> Any:
        # An upper bound of the value's JSON, so that it is not written only to be measured.
        self._size += 64
        if value is None:
            return None
        if isinstance(value, numpy.generic):
            value = self._scalar(value)
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._int(int(value))
        if isinstance(value, float):
            return _write_float(float(value))
        if isinstance(value, str):
            self._size += len(value) * 12
            return value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {TAG: "bytes", "b": self._block(_flat(value))}
        if isinstance(value, datetime):
            return self._datetime(value)
        if isinstance(value, numpy.ndarray):
            return self._ndarray(value)
        if _is_image(value):
            return {TAG: "image", "b": self._block(self._png(value))}
        if depth >= DEPTH:
            raise self._refuse(f"is nested deeper than {DEPTH} levels")
        return self._container(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            return self._dict(value, depth)
        if isinstance(value, list):
            return self._items(value, depth)
        if isinstance(value, tuple):
            return {TAG: "tuple", "items": self._items(value, depth)}
        if isinstance(value, (set, frozenset)):
            if not all(_is_member(member) for member in value):
                raise self._refuse("is a set with a member that is not a scalar, bytes, datetime or tuple of those")
            return {TAG: "set", "items": self._items(value, depth)}
        raise self._refuse(f"a {type(value).__name__} cannot be sent")

    def _items(self, items: Iterable[Any], depth: int) -> List[Any]:
        return [self._at(f"[{i}]", item, depth) for i, item in enumerate(items)]

    def _dict(self, value: Dict[Any, Any], depth: int) -> Dict[str, Any]:
        entries = []
        for key, item in value.items():
            if not isinstance(key, str):
                raise self._refuse(f"has a key that is not a string: {key!r:.40}")
            self._size += len(key) * 12
            place = f".{key}" if _IDENTIFIER.fullmatch(key) else f"['{key}']"
            entries.append([key, self._at(place, item, depth)])
        return {TAG: "dict", "items": entries} if TAG in value else dict(entries)

    def _at(self, place: str, value: Any, depth: int) -> Any:
        self._path.append(place)
        written = self._value(value, depth + 1)
        self._path.pop()
        return written

    def _scalar(self, value: Any) -> Any:
        kind, size = value.dtype.kind, value.dtype.itemsize
        if kind in "biu" or (kind == "f" and size <= 8) or kind in "US":
            return value.item() if kind != "f" else float(value)
        raise self._refuse(f"a {type(value).__name__} cannot be sent")

    def _int(self, value: int) -> Any:
        if -SAFE <= value <= SAFE:
            return value
        # Python refuses to write much longer numbers, because that takes it long. A digit has 3.32 bits.
        text = str(value) if value.bit_length() < DIGITS * 3.34 else ""
        if not text or len(text.lstrip("-")) > DIGITS:
            raise self._refuse(f"has more than {DIGITS} digits")
        self._size += len(text)
        return {TAG: "int", "v": text}

    def _datetime(self, value: datetime) -> Dict[str, Any]:
        text = value.isoformat()
        if not _DATETIME.fullmatch(text):
            # A subclass may be finer, or no time at all.
            raise self._refuse(f"{text:.40} is not a time in microseconds")
        return {TAG: "datetime", "v": text}

    def _ndarray(self, array: Any) -> Dict[str, Any]:
        if isinstance(array, numpy.ma.MaskedArray):
            raise self._refuse("a masked array cannot be sent")
        array = numpy.asarray(array)
        shape = list(array.shape)
        problem = _problem_of_shape(shape)
        if problem:
            raise self._refuse(problem)
        if array.dtype.kind == "U":
            values = array.reshape(-1).tolist()
            self._size += sum(len(text) * 12 + 4 for text in values)
            return {TAG: "ndarray", "dtype": "string", "shape": shape, "values": values}
        name = array.dtype.newbyteorder("=").name
        if name not in DTYPES:
            raise self._refuse(f"an ndarray of {array.dtype} cannot be sent")
        # asarray and not ascontiguousarray, which gives a scalar a dimension.
        array = numpy.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        block = memoryview(array.reshape(-1).view(numpy.uint8)) if array.size else b""
        return {TAG: "ndarray", "dtype": name, "shape": shape, "b": self._block(block)}

    def _png(self, image: Any) -> memoryview:
        sink = io.BytesIO()
        try:
            image.save(sink, format="PNG")
        except (OSError, ValueError) as error:
            raise self._refuse(f"an image of mode {image.mode} is not a PNG: {error}") from error
        return sink.getbuffer()

    def _block(self, data: Any) -> int:
        if len(self.blocks) == BLOCKS:
            raise self._refuse(f"needs more than {BLOCKS} blocks")
        if self._block_bytes + len(data) > BLOCK_BYTES:
            raise self._refuse(f"needs more than {BLOCK_BYTES} bytes, with what is sent beside it")
        self._block_bytes += len(data)
        self.blocks.append(data)
        return len(self.blocks) - 1

    def _refuse(self, problem: str) -> TypeError:
        return TypeError(f"{''.join(self._path)}: {problem}")


class ValueReader:
    """Reads all values of one frame, each of whose blocks belongs to exactly one of them.

    `image` makes a value of the bytes of an encoded image.
    """

    def __init__(self, blocks: Sequence[Any], image: Callable[[bytes], Any] = bytes) -> None:
        self._blocks = blocks
        self._used: Set[int] = set()
        self._image = image

    def read(self, value: Any) -> Any:
        """Returns the value. Raises ProtocolError."""
        if isinstance(value, dict) and value.get(TAG) == "json":
            text = self._block(_field(value, "b"))
            if len(text) > JSON_BYTES:
                raise _malformed("JSON in a block is too long")
            value = parse_json(text, "value")
        return self._value(value, 0)

    def end(self) -> None:
        """Call it when all values are read. Raises ProtocolError for a block that belongs to none."""
        if len(self._used) < len(self._blocks):
            unused = len(self._blocks) - len(self._used)
            raise _malformed(f"{unused} of {len(self._blocks)} blocks are not used")

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise _malformed("a number is out of range")
        if isinstance(value, list):
            return self._items(value, depth)
        if not isinstance(value, dict):
            return value
        if TAG in value:
            return self._tagged(value, depth)
        return self._dict(value.items(), depth)

    def _tagged(self, value: Dict[str, Any], depth: int) -> Any:
        tag = value[TAG]
        if tag == "bytes":
            return bytes(self._block(_field(value, "b")))
        if tag == "image":
            return self._image(bytes(self._block(_field(value, "b"))))
        if tag == "ndarray":
            return self._ndarray(value)
        if tag == "datetime":
            return _read_datetime(_field(value, "v"))
        if tag == "float":
            return _read_float(_field(value, "v"))
        if tag == "int":
            return _read_int(_field(value, "v"))
        if tag == "tuple":
            return tuple(self._items(_field(value, "items"), depth))
        if tag == "set":
            members = self._items(_field(value, "items"), depth)
            if not all(_is_member(member) for member in members):
                raise _malformed("a set has a member that Python cannot hash")
            return set(members)
        if tag == "dict":
            return self._dict(_entries(_field(value, "items")), depth)
        raise _malformed(f"unknown tag {tag!r:.40}")

    def _items(self, items: Any, depth: int) -> List[Any]:
        if not isinstance(items, list):
            raise _malformed("items is not a list")
        _check_depth(depth)
        return [self._value(item, depth + 1) for item in items]

    def _dict(self, entries: Iterable[Any], depth: int) -> Dict[str, Any]:
        _check_depth(depth)
        return {key: self._value(item, depth + 1) for key, item in entries}

    def _block(self, index: Any) -> Any:
        if not is_count(index) or index >= len(self._blocks):
            raise _malformed(f"there is no block {index!r:.40}")
        if index in self._used:
            # Twice the same memory would let a small frame become large values.
            raise _malformed(f"block {index} is used twice")
        self._used.add(int(index))
        return self._blocks[int(index)]

    def _ndarray(self, value: Dict[str, Any]) -> Any:
        text = value.get("dtype") == "string"
        _field(value, "dtype", "shape", "values" if text else "b")
        shape, dtype = value["shape"], value["dtype"]
        problem = _problem_of_shape(shape) if isinstance(shape, list) else "has a shape that is not a list"
        if problem:
            raise _malformed(f"an ndarray {problem}")
        shape = [int(dim) for dim in shape]
        count = math.prod(shape)
        if text:
            return _texts(value["values"], count).reshape(shape)
        if dtype not in DTYPES:
            raise _malformed(f"unknown dtype {dtype!r:.40}")
        block = self._block(value["b"])
        kind = numpy.dtype(dtype).newbyteorder("<")
        if len(block) != count * kind.itemsize:
            raise _malformed(f"{count} elements of {dtype} do not have {len(block)} bytes")
        if dtype == "bool" and count and numpy.frombuffer(block, numpy.uint8).max() > 1:
            raise _malformed("a bool is neither 0 nor 1")
        return numpy.frombuffer(block, kind).reshape(shape) if count else numpy.empty(shape, kind)


def _texts(values: Any, count: int) -> Any:
    if not isinstance(values, list) or len(values) != count or not all(isinstance(text, str) for text in values):
        raise _malformed(f"an ndarray of strings needs {count} of them")
    if any(text.endswith("\0") for text in values):
        raise _malformed("a string of an ndarray ends with a zero character, which numpy would drop")
    # numpy gives each string the space of the longest.
    if 4 * count * max(map(len, values), default=0) > BLOCK_BYTES:
        raise _malformed(f"an ndarray of strings would take more than {BLOCK_BYTES} bytes")
    return numpy.array(values, dtype=str)


def _problem_of_shape(shape: Sequence[Any]) -> Optional[str]:
    if len(shape) > RANK:
        return f"has {len(shape)} dimensions, over the limit of {RANK}"
    product = 1
    for dim in shape:
        if not is_count(dim):
            return f"has a dimension of {dim!r:.40}"
        product *= max(int(dim), 1)
        # At every step, and without the zeros: [1e9, 1e9, 0] has no element and is refused.
        if product > BLOCK_BYTES:
            return f"has a shape over the limit of {BLOCK_BYTES} elements"
    return None


def _is_member(value: Any) -> bool:
    """True if a value can be in a set that both languages read."""
    if isinstance(value, tuple):
        return all(_is_member(item) for item in value)
    return isinstance(value, _SCALARS)


def _is_image(value: Any) -> bool:
    # Without an import of PIL: a value is one of its images only when it is loaded.
    pil = sys.modules.get("PIL.Image")
    return pil is not None and isinstance(value, pil.Image)


def _flat(data: Any) -> Any:
    if not isinstance(data, memoryview):
        return data
    return data.cast("B") if data.c_contiguous and data.nbytes else data.tobytes()


def _write_float(value: float) -> Any:
    if math.isnan(value):
        return {TAG: "float", "v": "nan"}
    if math.isinf(value):
        return {TAG: "float", "v": "inf" if value > 0 else "-inf"}
    if value == 0 and math.copysign(1, value) < 0:
        return {TAG: "float", "v": "-0"}
    return value


def _field(value: Dict[str, Any], *names: str) -> Any:
    """The first of the fields that a tagged object has to have."""
    if len(value) != len(names) + 1 or not all(name in value for name in names):
        raise _malformed(f"a value with the tag {value[TAG]!r:.40} needs {', '.join(names)}, and nothing else")
    return value[names[0]]


def _read_datetime(text: Any) -> datetime:
    if not isinstance(text, str) or not _DATETIME.fullmatch(text):
        raise _malformed("a datetime is not ISO 8601")
    try:
        # Python 3.9 does not read a Z.
        return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError as error:
        raise _malformed("a datetime is not ISO 8601") from error


def _read_float(name: Any) -> float:
    if not isinstance(name, str) or name not in _FLOATS:
        raise _malformed("a float is not nan, inf, -inf or -0")
    return _FLOATS[name]


def _read_int(text: Any) -> int:
    if not isinstance(text, str) or len(text) > DIGITS + 1 or not _INTEGER.fullmatch(text):
        raise _malformed("an int is not a whole number")
    value = int(text)
    if -SAFE <= value <= SAFE:
        raise _malformed("an int needs no tag within ±(2^53 − 1)")
    return value


def _entries(items: Any) -> List[Any]:
    if not isinstance(items, list):
        raise _malformed("items is not a list")
    for pair in items:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise _malformed("an item of a dict is not a key and value")
    return items


def _check_depth(depth: int) -> None:
    if depth >= DEPTH:
        raise _malformed(f"values nest deeper than {DEPTH} levels")


def _malformed(problem: str) -> ProtocolError:
    return ProtocolError(f"malformed value: {problem}")
