"""Reads frames from stdin, one line of hex each, and prints each as it is written again, or why it is refused."""
import io
import sys

from wkr_serving._protocol.frames import FrameReader, ProtocolError, write_frame
from wkr_serving._protocol.values import ValueReader, ValueWriter

for line in sys.stdin:
    stream = io.BytesIO(bytes.fromhex(line))
    try:
        header, blocks = FrameReader(stream).read()
        reader = ValueReader(blocks)
        items = [reader.read(item) for item in header["items"]]
        reader.end()
        writer = ValueWriter()
        written = [writer.write(item, "item") for item in items]
        sink = io.BytesIO()
        write_frame(sink, {"type": "run", "id": header["id"], "items": written}, writer.blocks)
        print(sink.getvalue().hex())
    except ProtocolError as error:
        print(f"refused: {error}")
