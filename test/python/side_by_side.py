"""Compares this client with the genuine ones: analytics-zoo-serving 0.11.2, and the signer of botocore. By hand, not by npm test.

    python -m venv v && v/bin/pip install redis pyarrow numpy httpx opencv-python-headless boto3
    v/bin/pip download --no-deps analytics-zoo-serving==0.11.2 && unzip -d old analytics_zoo_serving-*.whl
    PYTHONPATH=python v/bin/python test/python/side_by_side.py old [queue url of a local service]

Both write to a real redis-server, and read from it. With a queue url (and the variables that `npm start` prints), a record
is sent through SQS, too.
"""
import base64
import importlib
import random
import socket
import subprocess
import sys
import tempfile
from datetime import datetime, timezone

import botocore.auth
import botocore.credentials
import numpy as np
import redis
from botocore.awsrequest import AWSRequest
from cluster_serving import Client, Credentials
from cluster_serving import compat as ours
from cluster_serving._errors import extra
from cluster_serving._sigv4 import quote, sign

RECORDS = [
    {"t": np.array([1, 2])},
    {"a": np.arange(24).reshape(2, 3, 4), "b": np.array(0.1)},
    {"s": [np.array([[0, 1, 4], [0, 2, 5]]), np.array([101, 102, 103]), np.array([5, 10])]},
    {"k": ["hello", "world"]},
    {"i": {"b64": base64.b64encode(b"\xff\xd8").decode()}},
]


def compare_redis(genuine, port):
    db = redis.Redis(port=port)
    for kind in (genuine, ours):
        queue = kind.InputQueue(host="localhost", port=port)
        for i, record in enumerate(RECORDS):
            queue.enqueue(f"u{i}", **record)
    entries = [fields for _, fields in db.xrange("serving_stream")]
    half = len(RECORDS)
    assert len(entries) == 2 * half and entries[:half] == entries[half:], "the streams differ"
    print(f"{half} records: the same bytes in the stream")
    schema = extra("pyarrow", "zoo").schema([("data", "float32"), ("shape", "int32")])
    pa = extra("pyarrow", "zoo")
    sink = pa.BufferOutputStream()
    with pa.RecordBatchStreamWriter(sink, schema) as writer:
        for data, shape in (([1.5, 2.5, 3.5, 4.5], [2, 2, None, None]), ([7.0], [1])):
            writer.write_batch(pa.record_batch([pa.array(data, "float32"), pa.array(shape, "int32")], schema))
    value = base64.b64encode(sink.getvalue().to_pybytes())
    for uri, stored in (("two", value), ("failed", b"NaN")):
        db.hset(f"cluster-serving_serving_stream:{uri}", "value", stored)
    theirs, mine = (kind.OutputQueue(host="localhost", port=port) for kind in (genuine, ours))
    for uri in ("two", "failed", "none"):
        pair = theirs.query(uri), mine.query(uri)
        assert repr(pair[0]) == repr(pair[1]), pair
    assert repr(theirs.query_and_delete("two")) == repr([np.array([[1.5, 2.5], [3.5, 4.5]], "f"), np.array([7], "f")])
    assert mine.dequeue() == {"failed": "NaN"} and theirs.dequeue() == {}
    print("results: the same arrays, the same NaN and []")


def compare_signatures():
    chance = random.Random(1)
    # The time of botocore, which has no parameter for it.
    now = datetime(2026, 11, 23, 1, 2, 3, tzinfo=timezone.utc)
    clock, botocore.auth.get_current_datetime = botocore.auth.get_current_datetime, lambda *_, **__: now.replace(tzinfo=None)
    for i in range(500):
        def text():
            return "".join(chance.choice("ab /?&=+%~-_.!'()*é日🙂") for _ in range(8)) + "x"

        path = "/" + quote(text())
        query = "&".join(f"{quote(text())}={quote(text())}" for _ in range(chance.randrange(4)))
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"k{i}"}
        body = text().encode()
        token = chance.choice([None, "to/ken=="])
        request = AWSRequest("POST", f"https://a.example{path}?{query}", headers=dict(headers), data=body)
        keys = botocore.credentials.Credentials("AKID", "se/cr+et", token)
        botocore.auth.SigV4Auth(keys, "execute-api", "eu-west-1").add_auth(request)
        added = sign("POST", f"{path}?{query}" if query else path, {"Host": "a.example", **headers}, body,
                     service="execute-api", region="eu-west-1", credentials=Credentials("AKID", "se/cr+et", token), now=now)
        assert added["Authorization"] == request.headers["Authorization"], (path, query)
    botocore.auth.get_current_datetime = clock
    print("500 signatures: those of botocore")


def send_through_sqs(url):
    enqueued = Client(sqs=url).enqueue("side by side", {"image": np.zeros((3, 8, 8), np.float32)})
    print("sent through SQS:", enqueued)
    return enqueued


def main():
    sys.path.insert(0, sys.argv[1])
    genuine = importlib.import_module("zoo.serving.client")
    assert genuine.__file__.startswith(sys.argv[1]), genuine.__file__
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            ["redis-server", "--port", str(port), "--save", ""], stdout=subprocess.PIPE, cwd=folder) as server:
        next(line for line in server.stdout if b"eady to accept connections" in line)
        try:
            compare_redis(genuine, port)
        finally:
            server.kill()
    compare_signatures()
    if len(sys.argv) > 2:
        send_through_sqs(sys.argv[2])


main()
