"""Reads one result as the Python client of Analytics Zoo does: HGETALL, base64, Arrow stream, one batch per output.

Usage: read_result.py <host> <port> <job> <uri>; prints JSON: a list (one output), a list of lists, or a text.
"""
import base64
import json
import sys

import numpy
import pyarrow
import redis

host, port, job, uri = sys.argv[1:]
fields = redis.StrictRedis(host=host, port=int(port), db=0).hgetall("cluster-serving_" + job + ":" + uri)
value = fields[b"value"].decode("utf-8")
if value == "NaN" or value.startswith("[["):
    print(json.dumps(value))
else:
    outputs = []
    for batch in pyarrow.ipc.open_stream(base64.b64decode(value)):
        data = batch[0].to_numpy()
        shape = [item for item in batch[1].to_pylist() if item is not None]
        outputs.append(numpy.reshape(data, shape).tolist())
    print(json.dumps(outputs[0] if len(outputs) == 1 else outputs))
