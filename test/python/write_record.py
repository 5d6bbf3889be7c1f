"""Writes one record as the Python client of Analytics Zoo does and prints {"uri", "data"} for the queue.

Usage: write_record.py <uri> dense|strings|image <json>
"""
import base64
import json
import sys

import numpy
import pyarrow

uri, kind, text = sys.argv[1:]
value = json.loads(text)
if kind == "dense":
    array = numpy.array(value, dtype=numpy.float32)
    field = pyarrow.struct([
        pyarrow.field("indiceData", pyarrow.list_(pyarrow.int32())),
        pyarrow.field("indiceShape", pyarrow.list_(pyarrow.int32())),
        pyarrow.field("data", pyarrow.list_(pyarrow.float32())),
        pyarrow.field("shape", pyarrow.list_(pyarrow.int32())),
    ])
    rows = [
        {"indiceData": []},
        {"indiceShape": []},
        {"data": array.flatten().tolist()},
        {"shape": list(array.shape)},
    ]
    column = pyarrow.array(rows, type=field)
else:
    column = pyarrow.array(["|".join(value) if kind == "strings" else value])
batch = pyarrow.RecordBatch.from_arrays([column], ["t"])
sink = pyarrow.BufferOutputStream()
with pyarrow.RecordBatchStreamWriter(sink, batch.schema) as writer:
    writer.write_batch(batch)
print(json.dumps({"uri": uri, "data": base64.b64encode(sink.getvalue().to_pybytes()).decode()}))
