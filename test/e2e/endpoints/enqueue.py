"""Enqueues each record of standard input at its service with the Python client, and writes what it gets for it, a line of JSON each."""
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy

from cluster_serving import Client
from cluster_serving import ServingError

clients = {}
lock = threading.Lock()
NUMBERS = {"i": int, "u": int, "f": float, "b": lambda text: text == "true"}


def array(dtype, shape, data):
    if dtype == "string":
        made = numpy.empty(len(data), dtype=object)
        made[:] = data
        return made.reshape(shape)
    kind = numpy.dtype(dtype)
    return numpy.array([NUMBERS[kind.kind](text) for text in data], dtype=kind).reshape(shape)


def answer(line):
    record = json.loads(line)
    with lock:
        client = clients.setdefault(record["url"], Client(record["url"]))
    try:
        inputs = {name: array(dtype, shape, data) for name, dtype, shape, data in record["inputs"]}
        result = client.wait(client.enqueue(record["uri"], inputs), timeout=60)
        outputs = [{"name": name, "shape": list(value.shape), "data": value.reshape(-1).tolist()}
                   for name, value in result.outputs.items()]
        said = {"outputs": outputs}
    except ServingError as error:
        said = {"code": error.code, "error": error.message}
    except Exception as error:  # A fault of the client, which the test shall see.
        said = {"code": type(error).__name__, "error": str(error)}
    with lock:
        print(json.dumps({"key": record["key"], **said}), flush=True)


with ThreadPoolExecutor(8) as pool:
    for _ in pool.map(answer, sys.stdin):
        pass
