"""Frames: a length (u32, big-endian), a JSON header, and raw blocks whose lengths the header lists as `blocks`.

Every length is checked before memory is allocated for it.
"""
import json
import math
import struct

HEADER_BYTES = 1024 * 1024
BLOCK_BYTES = 256 * 1024 * 1024
BLOCKS = 65_536
# Beyond it, a number without a tag is a float, as TypeScript has it.
SAFE = 2**53 - 1


class ProtocolError(Exception):
    """A frame or a value that breaks the protocol."""


class FrameReader:
    """Reads frames from an unbuffered binary stream."""

    def __init__(self, stream):
        self._stream = stream

    def read(self):
        """Returns a header and its blocks (bytearrays), or None at the end of the stream."""
        start = self._fill(bytearray(4), may_end=True)
        if start is None:
            return None
        (length,) = struct.unpack(">I", start)
        if length == 0:
            raise ProtocolError("malformed frame: the header is empty")
        if length > HEADER_BYTES:
            raise ProtocolError(f"malformed frame: a header of {length} bytes is over the limit of {HEADER_BYTES}")
        header = parse_json(self._fill(bytearray(length)), "frame")
        if not isinstance(header, dict):
            raise ProtocolError("malformed frame: the header is no object")
        lengths = header.get("blocks", [])
        if not isinstance(lengths, list):
            raise ProtocolError("malformed frame: blocks is no list")
        _check_lengths(lengths)
        # One memory for each, so that an array can keep its own.
        return header, [self._fill(bytearray(int(length))) for length in lengths]

    def _fill(self, buffer, may_end=False):
        filled = 0
        with memoryview(buffer) as view:
            while filled < len(buffer):
                count = self._stream.readinto(view[filled:])
                if not count:
                    if may_end and filled == 0:
                        return None
                    raise ProtocolError("malformed frame: it is cut off")
                filled += count
        return buffer


def write_frame(stream, header, blocks=()):
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


def dump_json(value):
    """Returns the bytes of the JSON of `value`."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8. Escaped, it is valid JSON.
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def parse_json(data, what):
    """Parses UTF-8 as JavaScript does. Raises ProtocolError with `what` in its message."""
    try:
        return json.loads(bytes(data).decode("utf-8"), parse_constant=_refuse_constant, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"malformed {what}: it is no JSON") from error


def is_count(value):
    """Whether a value of JSON is a whole number that is not negative. JavaScript cannot tell 1.0 from 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= SAFE and value == math.floor(value)


def _check_lengths(lengths):
    if len(lengths) > BLOCKS:
        raise ProtocolError(f"malformed frame: {len(lengths)} blocks are over the limit of {BLOCKS}")
    total = 0
    for length in lengths:
        if not is_count(length):
            raise ProtocolError("malformed frame: the length of a block is no whole number >= 0")
        total += length
        if total > BLOCK_BYTES:
            raise ProtocolError(f"malformed frame: the blocks are over the limit of {BLOCK_BYTES} bytes")


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def _parse_int(text):
    # Without int(): thousands of digits take it long.
    value = int(text) if len(text) <= 17 else float(text)
    return value if -SAFE <= value <= SAFE else float(text)
