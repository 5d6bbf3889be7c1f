"""The wire format of the former client (0.11): Arrow streams in base64. Needs the extra zoo."""
from __future__ import annotations

import base64
from typing import Any, List, Mapping

import numpy

from ._errors import ServingError, bad_request, extra
from ._inputs import Sparse, read_inputs


def arrow_of(data: Mapping[str, Any]) -> str:
    """The wire format of 0.11: base64 of an Arrow stream with one record batch, and one column for each input.

    Numbers are float32; floats are rounded to it, as in 0.11; whole numbers that it cannot hold raise bad_request.
    """
    pa = extra("pyarrow", "zoo")
    values = read_inputs({name: modern(value) for name, value in data.items()})
    whole, numbers = pa.list_(pa.int32()), pa.list_(pa.float32())
    tensor = pa.struct([("indiceData", whole), ("indiceShape", whole), ("data", numbers), ("shape", whole)])
    columns: List[Any] = []
    for name, value in values.items():
        if isinstance(value, bytes):
            columns.append(pa.array([base64.b64encode(value).decode("ascii")]))
        elif isinstance(value, Sparse):
            rows = [{"indiceData": value.indices.reshape(-1)}, {"indiceShape": list(value.indices.shape)},
                    {"data": _float32(name, value.values)}, {"shape": list(value.shape)}]
            columns.append(pa.array(rows, type=tensor))
        elif value.dtype.kind == "O":
            columns.append(pa.array(["|".join(_without_bars(name, value))]))
        else:
            rows = [{"indiceData": []}, {"indiceShape": []},
                    {"data": _float32(name, value)}, {"shape": list(value.shape)}]
            columns.append(pa.array(rows, type=tensor))
    # Columns have one length: a record of both kinds has nulls below its texts and images, which nobody reads.
    rows_of_all = max(map(len, columns))
    columns = [pa.array(column.to_pylist() + [None] * (rows_of_all - len(column)), type=column.type)
               if len(column) < rows_of_all else column for column in columns]
    batch = pa.RecordBatch.from_arrays(columns, names=list(values))
    sink = pa.BufferOutputStream()
    with pa.RecordBatchStreamWriter(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode("ascii")


def arrays_of(b64str: str) -> Any:
    """The ndarray of a result in the wire format of 0.11, or the list of several: one record batch for each output."""
    pa = extra("pyarrow", "zoo")
    arrays = []
    try:
        for batch in pa.ipc.open_stream(base64.b64decode(b64str)):
            shape = [dim for dim in batch.column(1).to_pylist() if dim is not None]
            arrays.append(batch.column(0).drop_null().to_numpy(zero_copy_only=False).reshape(shape))
    except Exception as error:
        # pyarrow raises errors of many kinds for what is none of its own.
        raise ServingError("internal", f"the result is not an Arrow stream: {error}") from error
    if not arrays:
        raise ServingError("internal", "the result has no output")
    return arrays[0] if len(arrays) == 1 else arrays


def modern(value: Any) -> Any:
    """A sparse tensor of 0.11 is a list of three ndarrays."""
    if isinstance(value, list) and value and isinstance(value[0], numpy.ndarray):
        if len(value) != 3:
            raise bad_request("a sparse tensor: expected a list of three ndarrays: indices, values, shape")
        return {"indices": value[0], "values": value[1], "shape": numpy.asarray(value[2]).tolist()}
    return value


def _without_bars(name: str, texts: Any) -> List[str]:
    found: List[str] = texts.reshape(-1).tolist()
    if any("|" in text for text in found) and len(found) > 1:
        raise bad_request(f'input "{name}": this wire format separates texts with "|", which one of them has; use url=')
    return found


def _float32(name: str, array: Any) -> Any:
    with numpy.errstate(over="ignore"):
        narrow = array.astype(numpy.float32).reshape(-1)
    wide = array.reshape(-1)
    if array.dtype.kind in "iu" and not all(int(a) == b for a, b in zip(narrow, wide.tolist())):
        raise bad_request(f'input "{name}": this wire format has float32 only, which does not hold these whole numbers; '
                          "use url=")
    if array.dtype.kind == "f" and numpy.isinf(narrow).sum() > numpy.isinf(wide).sum():
        raise bad_request(f'input "{name}": a number is out of the range of float32')
    return narrow
