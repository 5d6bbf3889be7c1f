"""The names of the former client over Redis: what is written, byte by byte, and what is read. Needs redis and pyarrow."""
import base64
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from cluster_serving import ServingError

import pyarrow
import redis
import servers
from zoo.serving.client import InputQueue, OutputQueue

GOLDEN = pathlib.Path(os.environ.get("CORPUS", pathlib.Path(__file__).parents[3] / "shared")) / "fixtures" / "zoo"


def golden(name):
    path = GOLDEN / "derived" / name
    if not path.exists():
        raise unittest.SkipTest("needs the corpus")
    return json.loads(path.read_text())


class Wire(unittest.TestCase):
    def test_records_are_those_of_0_11_byte_by_byte(self):
        names = {"np": np, "base64": lambda data: base64.b64encode(data).decode()}
        image = (GOLDEN / "images" / "cat1.jpeg").read_bytes() if GOLDEN.exists() else b""
        cases = golden("enqueue_wire_golden.json")["ok"]
        for case in cases:
            with self.subTest(case["name"]):
                call = case["enqueue"].replace("cat1.jpeg bytes", "image").replace("enqueue(", "dict(uri_=", 1)
                inputs = eval(call, {**names, "image": image})
                inputs.pop("uri_")
                self.assertEqual(InputQueue("h", 1).data_to_b64(**inputs), case["fields"]["data"])
        self.assertGreater(len(cases), 10)

    def test_results_are_read_as_0_11_did(self):
        for case in golden("result_wire_golden.json")["cases"]:
            if "python_query_returns" not in case or case["hash_field_value"][0] in "N[":
                continue
            with self.subTest(case["name"]):
                found = OutputQueue("h", 1).get_ndarray_from_b64(case["hash_field_value"])
                plain = [each.tolist() for each in found] if isinstance(found, list) else found.tolist()
                self.assertEqual(plain, case["python_query_returns"])

    def test_what_this_format_would_change_is_refused(self):
        queue = InputQueue("h", 1)
        for wrong in (np.array([2**24 + 1]), np.array([1e39]), ["a|b", "c"], [np.zeros(1)], object()):
            with self.assertRaises(ServingError) as raised:
                queue.data_to_b64(x=wrong)
            self.assertEqual(raised.exception.code, "bad_request")


class Redis(unittest.TestCase):
    def setUp(self):
        if shutil.which("redis-server") is None:
            self.skipTest("needs redis-server")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = os.path.join(self.folder.name, "s")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--daemonize", "no"],
                                  stdout=subprocess.PIPE, cwd=self.folder.name)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for line in server.stdout:
            if b"eady to accept connections" in line:
                break
        self.db = redis.Redis(unix_socket_path=path)
        self.addCleanup(self.db.close)

    def queue(self, kind, **options):
        queue = kind("localhost", 6379, **options)
        queue._redis = self.db
        return queue

    def test_a_record_is_added_to_the_stream_and_a_full_redis_is_an_error(self):
        queue = self.queue(InputQueue, name="job")
        queue.enqueue("u", t=np.array([1, 2]))
        ((_, fields),) = self.db.xrange("job")
        self.assertEqual(fields, {b"uri": b"u", b"data": queue.data_to_b64(t=np.array([1, 2])).encode()})
        self.db.config_set("maxmemory", 1000)
        with self.assertRaises(ServingError) as raised:
            queue.enqueue("v", t=np.array([1]))
        self.assertEqual((raised.exception.code, raised.exception.uri, self.db.xlen("job")), ("queue_unavailable", "v", 1))

    def test_results_are_queried_and_taken(self):
        queue = self.queue(OutputQueue)
        self.assertEqual(queue.query("u"), "[]")
        sink = pyarrow.BufferOutputStream()
        schema = pyarrow.schema([("data", pyarrow.float32()), ("shape", pyarrow.int32())])
        with pyarrow.RecordBatchStreamWriter(sink, schema) as writer:
            writer.write_batch(pyarrow.record_batch([pyarrow.array([1, 2], "float32"), pyarrow.array([1, 2], "int32")], schema))
        array = base64.b64encode(sink.getvalue().to_pybytes())
        for uri, value in (("a:b", array), ("bad", "NaN"), ("top", "[[4,5.0],[3,4.0]]")):
            self.db.hset(f"cluster-serving_serving_stream:{uri}", "value", value)
        self.db.hset("cluster-serving_other:x", "value", "NaN")
        self.assertEqual(queue.query("a:b").tolist(), [[1, 2]])
        self.assertEqual(queue.query_and_delete("top"), "[[4,5.0],[3,4.0]]")
        found = queue.dequeue()
        self.assertEqual((sorted(found), found["bad"], found["a:b"].dtype), (["a:b", "bad"], "NaN", np.float32))
        self.assertEqual(self.db.keys("cluster-serving_*"), [b"cluster-serving_other:x"])

    def test_what_cannot_be_read_stays_and_hides_nothing(self):
        queue = self.queue(OutputQueue)
        key = "cluster-serving_serving_stream:"
        # As the service writes a large result: a stream that says why nobody can read it.
        for value in ("no base64 [", base64.b64encode(b"no stream"), b"\xff\xfe", base64.b64encode(b"\x10\0\0\0" * 9)):
            self.db.hset(f"{key}wrong", "value", value)
            self.db.hset(f"{key}bad", "value", "NaN")
            self.assertEqual(queue.dequeue(), {"bad": "NaN"})
            for call in (queue.dequeue, lambda: queue.query_and_delete("wrong")):
                with self.assertRaises(ServingError) as raised:
                    call()
                self.assertEqual(raised.exception.code, "internal")
            self.assertEqual(self.db.keys(f"{key}*"), [f"{key}wrong".encode()])

    def test_dequeue_returns_what_it_took_when_redis_leaves(self):
        queue = self.queue(OutputQueue)
        for i in range(3):
            self.db.hset(f"cluster-serving_serving_stream:u{i}", "value", "NaN")
        left = ["hget", "hget"]

        class Leaving:
            def __getattr__(_, name):
                if left and left[0] == name and left.pop(0) and not left:
                    raise redis.exceptions.ConnectionError("gone")
                return getattr(self.db, name)

        queue._redis = Leaving()
        self.assertEqual(list(queue.dequeue().values()), ["NaN"])
        self.assertEqual(len(self.db.keys("cluster-serving_*")), 2)
        self.db.hset("cluster-serving_serving_stream:u", "value", "NaN")
        left[:] = ["delete"]
        self.assertEqual(queue.query_and_delete("u"), "NaN")
        left[:] = ["hget"]
        with self.assertRaises(ServingError):
            queue.query_and_delete("u")

    def test_predict_gives_nothing_in_time_where_nobody_answers(self):
        queue = self.queue(InputQueue)
        queue._output = self.queue(OutputQueue)
        self.assertEqual(queue.predict({"t": np.array([1])}, timeout=2), "[]")


class Gone(unittest.TestCase):
    def test_a_redis_that_is_not_there_is_an_error(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        for call in (lambda: InputQueue("127.0.0.1", port).enqueue("u", t=np.array([1])),
                     lambda: OutputQueue("127.0.0.1", port).query("u")):
            with self.assertRaises(ServingError) as raised:
                call()
            self.assertEqual(raised.exception.code, "queue_unavailable")

    def test_every_method_has_a_case(self):
        found = {name for kind in (InputQueue, OutputQueue) for name in dir(kind) if not name.startswith("_")}
        self.assertEqual(found, {name for _, name in CALLS} | LOCAL)

    def test_every_call_ends_at_its_limit_whatever_redis_does(self):
        for behaviour, limit, code in ((servers.silent, 0.3, "timeout"), (half, 0.3, "timeout"), (slow, 0.3, "timeout"),
                                       (endless, 600, "too_large")):
            with servers.raw(behaviour) as url, unittest.mock.patch("cluster_serving._redis.MAX_BYTES", 2**20):
                with ThreadPoolExecutor(len(CALLS)) as pool:
                    calls = {name: pool.submit(code_of, call, kind("127.0.0.1", url.rpartition(":")[2], timeout=limit), limit)
                             for (kind, name), call in CALLS.items()}
                    self.assertEqual({name: each.result() for name, each in calls.items()}, dict.fromkeys(calls, code))

    def test_a_redis_that_always_has_more_keys_does_not_hold_dequeue(self):
        with servers.raw(endless_scan) as url:
            queue = OutputQueue("127.0.0.1", url.rpartition(":")[2], timeout=0.3)
            self.assertEqual(code_of(CALLS[OutputQueue, "dequeue"], queue, 0.3), "timeout")

    def test_a_name_that_is_not_resolved(self):
        ended = threading.Event()
        self.addCleanup(ended.set)
        with unittest.mock.patch("socket.getaddrinfo", lambda *_, **__: ended.wait() and []):
            self.assertEqual(code_of(CALLS[OutputQueue, "query"], OutputQueue("name.example", timeout=0.3), 0.3), "timeout")


def half(connection):
    connection.recv(65536)
    connection.sendall(b"$1000\r\nabc")
    servers.silent(connection)


def slow(connection):
    """One byte now and then."""
    connection.recv(65536)
    connection.sendall(b"+O")
    while not servers.DONE.wait(0.02):
        connection.sendall(b"K")


def endless_scan(connection):
    """Each reply of SCAN is whole, and none is the last."""
    while True:
        asked = connection.recv(65536)
        if not asked or servers.DONE.is_set():
            return
        for command in re.split(rb"(?:^|\n)\*\d", asked)[1:]:
            refused = b"%1\r\n$5\r\nproto\r\n:3\r\n" if b"HELLO" in command else b"-ERR unknown command\r\n"
            connection.sendall(b"*2\r\n$1\r\n1\r\n*0\r\n" if b"SCAN" in command else refused)


def endless(connection):
    connection.recv(65536)
    connection.sendall(b"$99999999999\r\n")
    while True:
        connection.sendall(b"0" * 65536)


X = np.array([1])
# Each call of both queues that asks Redis. A method without a case fails a test.
CALLS = {
    (InputQueue, "enqueue"): lambda queue, limit: queue.enqueue("u", t=X),
    (InputQueue, "enqueue_tensor"): lambda queue, limit: queue.enqueue_tensor("u", X),
    (InputQueue, "predict"): lambda queue, limit: queue.predict({"t": X}, timeout=limit),
    (OutputQueue, "query"): lambda queue, limit: queue.query("u"),
    (OutputQueue, "query_and_delete"): lambda queue, limit: queue.query_and_delete("u"),
    (OutputQueue, "read"): lambda queue, limit: queue.read("u", True, limit),
    (OutputQueue, "dequeue"): lambda queue, limit: queue.dequeue(),
}
LOCAL = {"data_to_b64", "base64_encode_image", "get_ndarray_from_b64", "db"}


def code_of(call, queue, limit):
    try:
        return f"answered {call(queue, limit)!r}"
    except ServingError as error:
        return error.code


if __name__ == "__main__":
    unittest.main()
