"""The names of the former client over Redis: what is written, byte by byte, and what is read. Needs redis and pyarrow."""
import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

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

    def test_every_call_ends_at_its_limit_where_redis_is_silent(self):
        with servers.raw(servers.silent) as url:
            where = {"host": "127.0.0.1", "port": url.rpartition(":")[2]}
            for call in (lambda: InputQueue(**where, timeout=0.2).enqueue("u", t=np.array([1])),
                         lambda: InputQueue(**where).predict({"t": np.array([1])}, timeout=0.2),
                         lambda: OutputQueue(**where, timeout=0.2).query("u"),
                         lambda: OutputQueue(**where, timeout=0.2).query_and_delete("u"),
                         lambda: OutputQueue(**where, timeout=0.2).dequeue()):
                with self.assertRaises(ServingError) as raised:
                    call()
                self.assertIn(raised.exception.code, ("timeout", "queue_unavailable"))


if __name__ == "__main__":
    unittest.main()
