"""Frames: a length (u32, big-endian), a JSON header, and raw blocks whose lengths the header lists as `blocks`.

Every length is checked before memory is allocated for it.
"""
import json
import math
import struct
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple

HEADER_BYTES = 1024 * 1024
BLOCK_BYTES = 256 * 1024 * 1024
BLOCKS = 65_536
# Beyond it, a number without a tag is a float, as TypeScript has it.
SAFE = 2**53 - 1

# The magic bytes of a frame, and the frame: the header and its blocks.
Header = Dict[str, Any]
Frame = Tuple[Header, List[bytearray]]


class ProtocolError(Exception):
    """A frame or a value that breaks the protocol."""


class FrameReader:
    """Reads frames from an unbuffered binary stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self) -> Optional[Frame]:
        """Returns a header and its blocks (bytearrays), or None at the end of the stream."""
        start = bytearray(4)
        if not self._fill(start, may_end=True):
            return None
        (length,) = struct.unpack(">I", start)
        if length == 0:
            raise ProtocolError("malformed frame: the header is empty")
        if length > HEADER_BYTES:
            raise ProtocolError(f"malformed frame: a header of {length} bytes is over the limit of {HEADER_BYTES}")
        header = parse_json(self._filled(length), "frame")
        if not isinstance(header, dict):
            raise ProtocolError("malformed frame: the header is not an object")
        lengths = header.get("blocks", [])
        if not isinstance(lengths, list):
            raise ProtocolError("malformed frame: blocks is not a list")
        _check_lengths(lengths)
        # One memory for each, so that an array can keep its own.
        return header, [self._filled(int(length)) for length in lengths]

    def _filled(self, length: int) -> bytearray:
        buffer = bytearray(length)
        self._fill(buffer)
        return buffer

    def _fill(self, buffer: bytearray, may_end: bool = False) -> bool:
        filled = 0
        with memoryview(buffer) as view:
            while filled < len(buffer):
                count = self._stream.readinto(view[filled:])
                if not count:
                    if may_end and filled == 0:
                        return False
                    raise ProtocolError("malformed frame: it is cut off")
                filled += count
        return True


def write_frame(stream: Any, header: Header, blocks: Sequence[Any] = ()) -> None:
    """Writes a frame to a buffered binary stream. Raises ValueError when it is over a limit."""
    lengths = [len(block) for block in blocks]
    if len(lengths) > BLOCKS or sum(lengths) > BLOCK_BYTES:
        raise ValueError(f"{len(lengths)} blocks of {sum(lengths)} bytes are over the limit")
    text = dump_json({**header, "blocks": lengths} if lengths else header)
    if len(text) > HEADER_BYTES:
        raise ValueError(f"a header of {len(text)} bytes is over the limit of {HEADER_BYTES}")
    stream.write(struct.pack(">I", len(text)))
    stream.write(text)
    for block in blocks:
        stream.write(block)
    stream.flush()


def dump_json(value: Any) -> bytes:
    """Returns the bytes of the JSON of `value`."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8. Escaped, it is valid JSON.
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def parse_json(data: Any, what: str) -> Any:
    """Parses UTF-8 as JavaScript does. Raises ProtocolError with `what` in its message."""
    try:
        return json.loads(bytes(data).decode("utf-8"), parse_constant=refuse_constant, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"malformed {what}: it is not JSON") from error


def is_count(value: Any) -> bool:
    """True if a value of JSON is a whole number that is not negative. JavaScript cannot tell 1.0 from 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return bool(0 <= value <= SAFE and value == math.floor(value))


def _check_lengths(lengths: List[Any]) -> None:
    if len(lengths) > BLOCKS:
        raise ProtocolError(f"malformed frame: {len(lengths)} blocks are over the limit of {BLOCKS}")
    total = 0
    for length in lengths:
        if not is_count(length):
            raise ProtocolError("malformed frame: the length of a block is not a whole number >= 0")
        total += length
        if total > BLOCK_BYTES:
            raise ProtocolError(f"malformed frame: the blocks are over the limit of {BLOCK_BYTES} bytes")


def refuse_constant(name: str) -> NoReturn:
    """For `json.loads`, which takes NaN and Infinity."""
    raise ValueError(f"{name} is not JSON")


def _parse_int(text: str) -> float:
    # Without int(): thousands of digits take it long.
    value = int(text) if len(text) <= 17 else float(text)
    return value if -SAFE <= value <= SAFE else float(text)
