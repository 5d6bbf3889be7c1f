"""Requests: inputs, retries, identities, redirects, and callers."""
import asyncio
import base64
import hashlib
import io
import json
import os
import pickle
import time
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import numpy as np
import servers
from cluster_serving import AsyncClient, Client, Credentials, Enqueued, EnqueueError, Record, ServingError, connect
from cluster_serving._inputs import InOrder, instance_of, record_of
from cluster_serving._sigv4 import find_credentials, sign
from cluster_serving.compat import OutputQueue
from wkr_serving.client.deadline import Deadline

TOKEN = "eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl"


def error_of(call):
    try:
        return call()
    except ServingError as error:
        return error


class Inputs(unittest.TestCase):
    def test_what_cannot_be_sent_is_refused_by_its_name(self):
        for wrong, says in (
            ({}, "at least one input"),
            ([1], "dict of inputs"),
            ({"x": object()}, 'input "x": expected numbers'),
            ({"x": []}, "empty"),
            ({"x": [[1], [1, 2]]}, "do not agree in shape"),
            ({"x": [1, [2]]}, "do not agree in shape"),
            ({"x": [1, None]}, "expected a number"),
            ({"x": ["a", 1]}, "texts and something else"),
            ({"x": [float("inf")]}, "out of the range"),
            ({"x": 10**400}, "out of the range"),
            ({"x": 2**53 + 1}, "not a float64"),
            ({"x": np.zeros(2, complex)}, "no type of ONNX"),
            ({"x": np.ma.masked_array([1])}, "masked"),
            ({"x": [np.zeros(2)]}, "numpy.stack"),
            ({"x": "/no/such/file.png"}, "a text is a path"),
            ({"x": {"b64": "?"}}, "b64"),
            ({"x": {"y": 1}}, "keys"),
            ({"x": io.StringIO("text")}, "expected bytes"),
            ({"x": {"indices": [[0.5]], "values": [1], "shape": [2]}}, "whole numbers"),
            ({"x": {"indices": [[0, 1, 2]], "values": [1], "shape": [2]}}, "do not fit"),
            ({"x": {"indices": [[1], [1, 2]], "values": [1], "shape": [3]}}, 'input "x": indices: expected'),
            ({"x": {"indices": [[1]], "values": [1], "shape": [3.7]}}, "shape: expected"),
            ({"x": {"indices": [[1]], "values": [1], "shape": None}}, "shape: expected"),
            ({"x": {"indices": [[1]], "values": 5, "shape": [3]}}, "values: expected"),
            ({1: [1]}, "the name of an input"),
        ):
            with self.subTest(str(wrong)[:60]):
                error = error_of(lambda: record_of("u", wrong))
                self.assertEqual(error.code, "bad_request")
                self.assertIn(says, error.message)

    def test_a_uri_is_a_text_of_1024_bytes(self):
        for wrong in ("", "a\n", "é" * 513, "\ud800", 1, None):
            self.assertEqual(error_of(lambda: record_of(wrong, {"x": 1})).code, "bad_request")
        record_of("é" * 512, {"x": 1})

    def test_only_the_former_client_leaves_names_to_the_order(self):
        inputs = {"b": [1.0], "a": [2.0]}
        for given, says in ((inputs, False), (InOrder(inputs), True)):
            file = base64.b64decode(json.loads(record_of("u", given))["data"])
            self.assertEqual(b'"bindByPosition":"true"' in file, says)

    def test_what_SQS_takes_in_no_message_is_escaped(self):
        body = record_of("a\ufffe\uffff", {"x": 1}).decode()
        self.assertNotRegex(body, "[\ufffe\uffff]")
        self.assertEqual(json.loads(body)["uri"], "a\ufffe\uffff")

    def test_an_image_is_read_up_to_its_limit(self):
        with unittest.mock.patch("cluster_serving._inputs.IMAGE_BYTES", 3):
            record_of("u", {"x": b"123"})
            for large in (b"1234", {"b64": "MTIzNA=="}, io.BytesIO(b"1234"), {"path": __file__}):
                self.assertEqual(error_of(lambda: record_of("u", {"x": large})).code, "too_large")

    def test_an_instance_has_null_for_NaN_and_no_infinity(self):
        self.assertEqual(instance_of({"x": np.array([1, np.nan], np.float32), "n": None}), {"x": [1.0, None], "n": None})
        self.assertEqual(instance_of({"x": np.array(["a"]), "b": np.array(True), "i": b"\xff"}),
                         {"x": ["a"], "b": True, "i": {"b64": "/w=="}})
        self.assertEqual(error_of(lambda: instance_of({"x": np.array([np.inf])})).code, "bad_request")

    def test_an_instance_has_no_whole_number_that_JSON_would_round(self):
        self.assertEqual(instance_of({"x": np.array([2**53 - 1, 1 - 2**53])}), {"x": [2**53 - 1, 1 - 2**53]})
        for wrong in (np.array([2**53]), np.array([-2**63]), np.array(2**64 - 1, np.uint64)):
            self.assertEqual(error_of(lambda: instance_of({"x": wrong})).code, "bad_request")

    def test_sparse_indices_are_one_row_per_point_over_http_even_where_both_fit(self):
        sparse = {"indices": [[0, 1], [1, 1]], "values": [5, 6], "shape": [2, 2]}
        self.assertEqual(instance_of({"s": sparse})["s"]["indices"], [[0, 1], [1, 1]])
        sparse["indices"] = [[0, 1], [0, 2]]
        self.assertEqual(instance_of({"s": sparse})["s"]["indices"], [[0, 0], [1, 2]])


def answers(*given):
    """Answers one after the other; the last one again and again."""
    left = list(given)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


BUSY = (503, {"error": "busy", "code": "queue_unavailable"})
QUEUED = (202, {"uri": "u", "identity": "i"})
FOUND = (200, {"uri": "u", "status": "succeeded", "model": "m", "finishedAt": "2026-11-23T00:00:00.500Z", "outputs": [
    {"name": "y", "dtype": "int64", "shape": [2], "data": ["9007199254740993", -1]}]})


class Retries(unittest.TestCase):
    def test_an_enqueue_is_sent_again_with_the_same_identity_and_a_read_too(self):
        with servers.api(answers(BUSY, (502, b""), QUEUED)) as (url, seen):
            enqueued = Client(url, timeout=600).enqueue("u", {"x": 1})
            self.assertEqual([request.headers["idempotency-key"] for request in seen], [enqueued.identity] * 3)
        with servers.api(answers(BUSY, BUSY, BUSY, FOUND)) as (url, seen):
            self.assertEqual(error_of(lambda: Client(url, timeout=600).query("u")).code, "queue_unavailable")
            self.assertEqual(len(seen), 3)
        with servers.api(answers((500, {"error": "no", "code": "internal"}), FOUND)) as (url, seen):
            self.assertEqual(error_of(lambda: Client(url, timeout=600).query("u")).code, "internal")
            self.assertEqual(len(seen), 1)

    def test_an_identity_is_one_word_of_64_characters(self):
        with servers.api(answers(QUEUED)) as (url, seen):
            for identity in ("a b", "", "a\n", "\u00e4", "~", "x" * 65, 7):
                with self.subTest(identity):
                    call = lambda: Client(url).enqueue("u", {"x": 1}, identity=identity)
                    self.assertEqual(error_of(call).code, "bad_request")
            self.assertEqual(seen, [])
            Client(url).enqueue("u", {"x": 1}, identity="A-z_0.9" + "x" * 57)
            self.assertEqual(len(seen), 1)

    def test_a_canary_key_is_a_header_and_one_word_of_128_characters(self):
        def answer(request):
            return (200, {"predictions": ["{value=[1]}"]}) if request.path == "/predict" else QUEUED

        async def in_asyncio(url, key):
            async with AsyncClient(url) as client:
                await client.enqueue("u", {"x": 1}, canary_key=key)
                await client.predict({"x": 1}, canary_key=key)

        with servers.api(answer) as (url, seen):
            client = Client(url, timeout=600, name="j")
            for key in ("a b", "", "a\n", "\u00e4", "x" * 129, 7):
                with self.subTest(key):
                    for call in (lambda: client.enqueue("u", {"x": 1}, canary_key=key),
                                 lambda: client.predict({"x": 1}, canary_key=key)):
                        error = error_of(call)
                        self.assertEqual(error.code, "bad_request")
                        self.assertIn("canary_key: expected 1 to 128", error.message)
            self.assertEqual(seen, [])
            key = "!~" * 64
            client.enqueue("u", {"x": 1}, canary_key=key)
            client.enqueue_many([Record("u", {"x": 1}, canary_key=key)])
            client.predict({"x": 1}, canary_key=key)
            asyncio.run(in_asyncio(url, key))
            asked = [each for each in seen if each.path in ("/predict", "/predictions")]
            self.assertEqual([each.headers.get("canary-key") for each in asked], [key] * 5)
            seen.clear()
            client.enqueue("u", {"x": 1})
            self.assertNotIn("canary-key", seen[0].headers)

    def test_the_times_of_a_record_are_in_the_query_and_bad_ones_are_sent_nowhere(self):
        async def in_asyncio(url):
            async with AsyncClient(url) as client:
                await client.enqueue("u", {"x": 1}, expires_after=1_209_600, delay_seconds=0)

        with servers.api(answers(QUEUED)) as (url, seen):
            client = Client(url, timeout=600)
            for wrong, text in (({"expires_after": 0}, "expires_after: expected whole seconds from 1 to 1209600, got 0"),
                                ({"expires_after": "60"}, "expires_after: expected whole seconds"),
                                ({"expires_after": True}, "expires_after: expected whole seconds"),
                                ({"priority": "urgent"}, "priority: expected \"high\" or \"normal\", got 'urgent'"),
                                ({"delay_seconds": 901}, "delay_seconds: expected whole seconds from 0 to 900, got 901"),
                                ({"delay_seconds": 1.5}, "delay_seconds: expected whole seconds"),
                                ({"expires_after": 60, "delay_seconds": 60}, "delay_seconds: with 60 and expires_after 60")):
                with self.subTest(wrong):
                    error = error_of(lambda: client.enqueue("u", {"x": 1}, **wrong))
                    self.assertEqual((error.code, error.uri), ("bad_request", "u"))
                    self.assertIn(text, error.message)
            self.assertEqual(seen, [])
            client.enqueue("u", {"x": 1}, expires_after=60, priority="high")
            client.enqueue_many([Record("u", {"x": 1}, notify="shop", expires_after=60, delay_seconds=5)])
            asyncio.run(in_asyncio(url))
            self.assertEqual([each.path for each in seen],
                             ["/predictions?expiresAfter=60&priority=high", "/predictions?notify=shop&expiresAfter=60&delaySeconds=5",
                              "/predictions?expiresAfter=1209600&delaySeconds=0"])

    def test_a_further_model_is_in_the_query_and_a_name_that_can_name_none_is_not_found(self):
        def answer(request):
            if request.path.startswith("/predict?"):
                return 200, {"predictions": ['{value={"data":[0.1],"shape":[1]}}']}, {"Model-Version": "v1"}
            if request.path.startswith("/v2/models/"):
                return 200, {"versions": ["v1"], "outputs": [{"name": "p", "datatype": "FP32"}]}
            return QUEUED

        async def in_asyncio(url):
            async with AsyncClient(url) as client:
                await client.enqueue("u", {"x": 1}, model="fraud")
                return await client.predict({"x": 1}, model="fraud")

        with servers.api(answer) as (url, seen):
            client = Client(url, timeout=600, name="j")
            for name in ("../x", "", "a b", "x" * 61, 7):
                for call in (lambda: client.enqueue("u", {"x": 1}, model=name), lambda: client.predict({"x": 1}, model=name)):
                    self.assertEqual(error_of(call).code, "not_found")
            self.assertEqual(seen, [])
            client.enqueue("u", {"x": 1}, model="fraud")
            client.enqueue_many([Record("u", {"x": 1}, model="fraud")])
            self.assertEqual(list(client.predict({"x": 1}, model="fraud").outputs), ["p"])
            asyncio.run(in_asyncio(url))
            self.assertEqual([each.path for each in seen], [
                "/predictions?model=fraud", "/predictions?model=fraud", "/predict?model=fraud", "/v2/models/fraud",
                "/predictions?model=fraud", "/predict?model=fraud", "/v2/models/fraud"])

    def test_a_wait_asks_for_the_whole_seconds_that_are_left_and_20_at_most(self):
        for timeout, seconds in ((60.5, 20), (20.9, 20), (2.9, 2), (0.9, 0)):
            with servers.api(answers(FOUND)) as (url, seen):
                Client(url).wait("u", timeout=timeout)
                self.assertEqual(seen[0].headers["prefer"], f"wait={seconds}")

    def test_a_service_that_fails_is_not_merely_not_ready(self):
        for status, expected in ((200, True), (503, False)):
            with servers.api(answers((status, {"ready": status == 200, "code": "model_unavailable"}))) as (url, _):
                self.assertIs(Client(url, timeout=600).is_ready(), expected)
        with servers.api(answers((500, {"error": "no", "code": "internal"}))) as (url, _):
            self.assertEqual(error_of(lambda: Client(url).is_ready()).code, "internal")

    def test_what_takes_or_predicts_is_sent_again_after_429_alone(self):
        for call in (lambda c: c.query_and_delete("u"), lambda c: c.dequeue(), lambda c: c.predict({"x": 1})):
            with servers.api(answers(BUSY)) as (url, seen):
                self.assertEqual(error_of(lambda: call(Client(url, timeout=600))).code, "queue_unavailable")
                self.assertEqual(len(seen), 1)
        limited = (429, {"error": "slowly", "code": "rate_limited"}, {"Retry-After": "0"})
        with servers.api(answers(limited, FOUND)) as (url, seen):
            self.assertEqual(Client(url, timeout=600).query_and_delete("u").output.tolist(), [9007199254740993, -1])
            self.assertEqual(len(seen), 2)

    def test_a_service_that_asks_for_a_long_pause_is_not_waited_for(self):
        with servers.api(answers((429, {"error": "slowly"}, {"Retry-After": "60"}))) as (url, seen):
            error = error_of(lambda: Client(url, timeout=600).query("u"))
            self.assertEqual((error.code, error.retryable, error.status, error.retry_after, len(seen)),
                             ("rate_limited", True, 429, 60.0, 1))


class Answers(unittest.TestCase):
    def test_errors_have_the_code_of_the_service_or_of_the_gateway(self):
        for status, body, code in (
            (401, {"message": "Unauthorized"}, "unauthorized"), (403, {"message": "Forbidden"}, "unauthorized"),
            (413, {"message": "Request Too Long"}, "too_large"), (404, {"message": "Not Found"}, "bad_config"),
            (504, b"<html>", "timeout"), (422, {"error": "no", "code": "model_failed"}, "model_failed"),
            (500, {"error": "?", "code": "a new one"}, "internal"), (200, b"<html>", "internal"), (200, [1], "internal"),
            (302, b"", "bad_config"),
        ):
            with self.subTest(status), servers.api(answers((status, body))) as (url, _):
                error = error_of(lambda: Client(url, timeout=600).query_and_delete("u"))
                self.assertEqual((error.code, str(pickle.loads(pickle.dumps(error)))), (code, str(error)))

    def test_no_JSON_makes_another_error_than_that_of_the_service(self):
        outputs = [1, [1], [{}], [{"name": "y", "dtype": [], "shape": [1], "data": [1]}],
                   *([{"name": "y", "dtype": "float32", "shape": shape, "data": data}]
                     for shape, data in ((1, [1]), ([-1], []), ([1], [[1]]), ([1], ["x"]), ([2**70], []), ([None], [1])))]
        texts = ["", 1, "{value=}", "{value=[}", '{value={"data":1,"shape":[1]}}', '{value={"data":[[]],"shape":[1]}}',
                 '{value={"data":[1e999],"shape":[1]}}', "{value=" + "[" * 10**5 + "}"]
        bodies = [None, 1, "x", [], {}, {"code": [], "error": {}}, {"uri": 1}, {"uri": "u", "status": [], "code": {}},
                  {"results": 1}, {"results": [1], "more": 1}, {"status": {}}, b"[" * 10**5, b'{"x":' + b"9" * 10**5 + b"}",
                  b'{"x":NaN}', b"\xff", *({"predictions": [text]} for text in texts),
                  *({"uri": "u", "status": "succeeded", "finishedAt": 1, "outputs": each} for each in outputs)]
        calls = (lambda c: c.query("u"), lambda c: c.predict({"x": 1}), lambda c: c.dequeue(), lambda c: c.status("u"))
        given = []
        with servers.api(lambda request: given[0]) as (url, _):
            client = Client(url, timeout=600)
            for status in (200, 400):
                for body in bodies:
                    given[:] = [(status, body)]
                    # Another exception would end the test.
                    found = [error_of(lambda: call(client)) for call in calls]
                    self.assertIsInstance(found[0], ServingError, body)

    def test_a_failed_record_raises_its_error_with_its_uri_and_another_identity_is_no_result(self):
        failed = (200, {"uri": "u", "status": "failed", "error": "no", "code": "bad_input"})
        with servers.api(answers(failed)) as (url, _):
            error = error_of(lambda: Client(url, timeout=600).query("u"))
            self.assertEqual((error.code, error.uri, error.retryable), ("bad_input", "u", False))
        with servers.api(answers(FOUND)) as (url, seen):
            self.assertIsNone(Client(url, timeout=600).query(Enqueued("a/b?c&d", "i")))
            self.assertEqual(seen[0].path, "/predictions?uri=a%2Fb%3Fc%26d&identity=i")

    def test_outputs_have_their_dtype_and_shape(self):
        cases = {"float16": [1.5, None], "float32": [0.1, -0.0], "float64": [0.1, 1], "int8": [-1, 1],
                 "uint64": ["18446744073709551615", 0], "bool": [True, False], "string": ["a", "é"]}
        outputs = [{"name": name, "dtype": name, "shape": [1, 2], "data": data} for name, data in cases.items()]
        with servers.api(answers((200, {**FOUND[1], "outputs": outputs}))) as (url, _):
            found = Client(url, timeout=600).query("u")
        self.assertEqual({name: (str(a.dtype), a.shape) for name, a in found.outputs.items()},
                         {name: ("object" if name == "string" else name, (1, 2)) for name in cases})
        self.assertEqual(found.outputs["float32"].tobytes(), np.array([0.1, -0.0], np.float32).tobytes())
        self.assertEqual(found.outputs["uint64"].tolist(), [[2**64 - 1, 0]])
        self.assertTrue(np.isnan(found.outputs["float16"][0, 1]))
        self.assertEqual(found.finished_at, datetime(2026, 11, 23, 0, 0, 0, 500000, timezone.utc))
        self.assertEqual(error_of(lambda: found.output).code, "bad_request")
        for dtype, data in (("int8", [1, 300]), ("int8", [1, 1.5]), ("bool", [1, 0]), ("float8", [1, 2]), ("int8", [1])):
            outputs = [{"name": "y", "dtype": dtype, "shape": [2], "data": data}]
            with servers.api(answers((200, {**FOUND[1], "outputs": outputs}))) as (url, _):
                self.assertEqual(error_of(lambda: Client(url, timeout=600).query("u")).code, "internal")

    def test_a_prediction_has_the_dtypes_of_the_model_that_answered(self):
        texts = ['{value=[{"data":[0.1,null],"shape":[2]},{"data":[9007199254740993],"shape":[]}]}']
        declared = {"versions": ["v1"], "outputs": [{"name": "p", "datatype": "FP32"}, {"name": "q", "datatype": "INT64"}]}

        def answer(request):
            if request.path.startswith("/v2"):
                return 200, declared
            return 200, {"predictions": texts}, {"Model-Version": "v1" if len(seen) < 4 else "v2"}

        with servers.api(answer) as (url, seen):
            client = Client(url, timeout=600, name="j")
            found = client.predict({"x": 1})
            self.assertEqual({k: (str(v.dtype), v.shape) for k, v in found.outputs.items()},
                             {"p": ("float32", (2,)), "q": ("int64", ())})
            self.assertEqual((int(found.outputs["q"]), found.text, found.model), (9007199254740993, texts[0], "v1"))
            client.predict([{"x": 1}])
            self.assertEqual([request.path for request in seen], ["/predict", "/v2/models/j", "/predict"])
            # Another version, whose metadata is not to be had: the numbers as JSON has them.
            self.assertEqual([str(v.dtype) for v in client.predict({"x": 1}).outputs.values()], ["float64", "int64"])
        labelled = {"labels": ["cat", "dog"]}
        for shape, labels in (([2], labelled), ([1, 2], labelled), ([2, 1], {})):
            declared["outputs"] = [{"name": "labels", "datatype": "FP32", "parameters": {"names": ["cat", "dog"]}}]
            texts[0] = '{value={"data":[0.1,0.9],"shape":%s}}' % shape
            with servers.api(answer) as (url, seen):
                self.assertEqual(Client(url, timeout=600, name="j").predict({"x": 1}).labels, labels)
        for text, value in (("{value=[[4,5.0],[3,4.0]]}", [[4, 5.0], [3, 4.0]]), ('{value={"a":1}}', {"a": 1})):
            with servers.api(answers((200, {"predictions": [text]}))) as (url, _):
                found = Client(url, timeout=600).predict({"x": 1})
                self.assertEqual((found.value, dict(found.outputs)), (value, {}))

    def test_while_a_canary_answers_in_turn_each_version_has_its_own_names_and_is_asked_for_once(self):
        described = {"/v2/models/j": ("v1", "p"), "/v2/models/j/versions/c1": ("c1", "c")}
        state = {}

        def answer(request):
            if request.path == "/predict":
                return 200, {"predictions": ['{value={"data":[0.1],"shape":[1]}}']}, {"Model-Version": state["version"]}
            if request.path not in described:
                return 404, {"error": "no version", "code": "not_found"}
            version, name = described[request.path]
            return 200, {"versions": [version], "outputs": [{"name": name, "datatype": "FP32"}]}

        with servers.api(answer) as (url, seen):
            client = Client(url, timeout=600, name="j")
            for version, name in [("v1", "p"), ("c1", "c")] * 3 + [("gone", "output0")]:
                state["version"] = version
                self.assertEqual(list(client.predict({"x": 1}).outputs), [name])
            self.assertEqual([each.path for each in seen if each.path != "/predict"], [
                "/v2/models/j", "/v2/models/j", "/v2/models/j/versions/c1", "/v2/models/j", "/v2/models/j/versions/gone"])

    def test_without_a_name_the_service_is_asked_once_for_its_job(self):
        declared = {"versions": ["v1", "v2", "v3"], "outputs": [{"name": "p", "datatype": "FP32"}],
                    "parameters": {"post_processing": "topN(2)"}}
        state = {"job": "j", "version": "v1", "text": '{value={"data":[0.1],"shape":[1]}}'}

        def answer(request):
            if request.path == "/v2/models/stats":
                return 200, {"model_stats": [{"name": state["job"]}]}
            if request.path == f"/v2/models/{state['job']}":
                return 200, declared
            if request.path.startswith("/v2"):
                return 404, {"error": f"the model of this job is \"{state['job']}\"", "code": "not_found"}
            return 200, {"predictions": [state["text"]]}, {"Model-Version": state["version"]}

        def asked():
            paths = [request.path for request in seen if request.path != "/predict"]
            seen.clear()
            return paths

        with servers.api(answer) as (url, seen):
            client = Client(url, timeout=600)
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(lambda _: client.predict({"x": 1}), range(16)))
            self.assertEqual([(list(each.outputs), each.output.dtype.name) for each in found], [(["p"], "float32")] * 16)
            self.assertEqual(asked(), ["/v2/models/stats", "/v2/models/j"])
            state["version"] = "v2"
            client.predict({"x": 1})
            self.assertEqual(asked(), ["/v2/models/j"])
            # Another job at the address.
            state.update(job="k", version="v3")
            self.assertEqual(list(client.predict({"x": 1}).outputs), ["p"])
            self.assertEqual(asked(), ["/v2/models/j", "/v2/models/stats", "/v2/models/k"])
            state["text"] = "{value=[[3,0.9],[1,0.1]]}"
            error = error_of(lambda: client.predict({"x": 1}).output)
            self.assertEqual(error.message, "the job answers with its filter topN(2): read .value")
            wrong = Client(url, timeout=600, name="other")
            for _ in range(2):
                error = error_of(lambda: wrong.predict({"x": 1}))
                self.assertEqual((error.code, error.message), ("bad_config", 'name: the model of this job is "k"'))

    def test_a_large_result_is_read_once_where_the_service_says_without_saying_who_calls(self):
        large = {**FOUND[1], "identity": "i"}
        with servers.api(lambda request: (200, large)) as (there, taken):
            with servers.api(lambda request: (303, b"", {"Location": f"{there}/large?X-Amz-Signature=s"})) as (url, seen):
                found = Client(url, timeout=600, token=TOKEN).wait("u", identity="i")
        self.assertEqual(found.output.dtype, np.int64)
        self.assertEqual(seen[0].headers["authorization"], f"Bearer {TOKEN}")
        self.assertEqual([request.path for request in taken], ["/large?X-Amz-Signature=s"])
        self.assertEqual({"authorization", "x-api-key"} & set(taken[0].headers), set())
        with servers.api(lambda request: (303, b"", {"Location": "/again"})) as (url, seen):
            self.assertEqual(error_of(lambda: Client(url, timeout=600, api_key="k").query("u")).code, "results_unavailable")
            self.assertEqual([request.path for request in seen], ["/predictions?uri=u", "/again"])

    def test_a_large_result_is_deleted_when_it_is_here_and_only_if_it_is_whole(self):
        body = json.dumps(FOUND[1]).encode()
        pointer = {"id": "i/d", "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}

        def answer(request):
            if request.path.startswith("/large"):
                return 200, body
            if "fetched=" in request.path:
                return 200, {"uri": "u"}
            return 303, {"uri": "u", "large": pointer}, {"Location": "/large"}

        with servers.api(answer) as (url, seen):
            client = Client(url, timeout=600, token=TOKEN)
            self.assertEqual(client.query_and_delete("u").output.dtype, np.int64)
            self.assertEqual([(each.method, each.path) for each in seen],
                             [("DELETE", "/predictions?uri=u"), ("GET", "/large"),
                              ("DELETE", "/predictions?uri=u&fetched=i%2Fd")])
            # On a single machine, the address is one of the API itself.
            self.assertEqual({each.headers["authorization"] for each in seen}, {f"Bearer {TOKEN}"})
            for wrong, code in (({"sha256": "0"}, "results_unavailable"), ({"bytes": 5}, "too_large"),
                                ({"bytes": 2**40}, "too_large")):
                seen.clear()
                pointer.update(wrong)
                self.assertEqual(error_of(lambda: client.query_and_delete("u")).code, code)
                self.assertFalse([each for each in seen if "fetched" in each.path])

    def test_large_results_of_a_page_are_fetched_and_one_that_cannot_be_stays(self):
        large = [{"uri": each, "identity": "i", "status": "succeeded", "large": {"id": "i"}} for each in "abcd"]
        page = {"results": [large[0], {**FOUND[1], "uri": "small"}, *large[1:]], "more": False}

        def answer(request):
            if request.path == "/predictions":
                return 200, page
            if "fetched=" in request.path:
                # Another client has it.
                return (404, {"error": "no", "code": "not_found"}) if "uri=b" in request.path else (200, {})
            if "uri=" in request.path:
                uri = request.path[len("/predictions?uri=")]
                return 303, next(each for each in large if each["uri"] == uri), {"Location": f"/large/{uri}"}
            uri = request.path[-1]
            return (403, b"") if uri == "c" else (200, {**FOUND[1], "uri": uri})

        expected = [("a", None), ("small", None), ("c", "results_unavailable"), ("d", None)]
        with servers.api(answer) as (url, seen):
            found = list(Client(url, timeout=600).drain())
            self.assertEqual([(each.uri, each.error and each.error.code) for each in found], expected)
            self.assertEqual(found[0].result.output.dtype, np.int64)
            self.assertFalse([each for each in seen if "uri=c" in each.path and "fetched" in each.path])
            self.assertEqual({each.path for each in seen if "uri=a" in each.path},
                             {"/predictions?uri=a&identity=i", "/predictions?uri=a&identity=i&fetched=i"})

            async def run():
                async with AsyncClient(url, timeout=600) as client:
                    return [(each.uri, each.error and each.error.code) async for each in client.drain()]

            self.assertEqual(asyncio.run(run()), expected)
            self.assertEqual(sorted(OutputQueue(url=url, timeout=600).dequeue()), ["a", "d", "small"])
            page["results"] = [{**large[2], "identity": None}]
            (outcome,) = Client(url, timeout=600).drain()
            self.assertEqual((outcome.uri, outcome.identity), ("c", ""))
            self.assertEqual(error_of(lambda: OutputQueue(url=url, timeout=600).dequeue()).code, "results_unavailable")

    def test_a_large_result_whose_deletion_is_not_answered_is_here(self):
        def behaviour(connection):
            while True:
                line = connection.recv(65536).partition(b"\r\n")[0]
                if not line or b"fetched" in line:
                    return
                body = json.dumps(FOUND[1] if line.startswith(b"GET") else {"uri": "u", "large": {"id": "i"}}).encode()
                head = b"HTTP/1.1 200 OK\r\n" if line.startswith(b"GET") else b"HTTP/1.1 303 S\r\nLocation: /large\r\n"
                connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

        with servers.raw(behaviour) as url:
            self.assertEqual(Client(url, timeout=600).query_and_delete("u").output.dtype, np.int64)

    def test_a_drain_that_was_left_goes_on_with_the_next(self):
        pages = [{"results": [{**FOUND[1], "uri": each} for each in "ab"], "more": True},
                 {"results": [{"uri": "c", "status": "failed", "error": "no", "code": "bad_input"}], "more": False}]
        with servers.api(answers(*((200, page) for page in pages))) as (url, seen):
            client = Client(url, timeout=600)
            self.assertEqual(next(client.drain()).uri, "a")
            self.assertEqual([(each.uri, each.error and each.error.code) for each in client.drain()],
                             [("b", None), ("c", "bad_input")])

    def test_take_deletes_only_what_the_caller_enqueued(self):
        with servers.api(answers((200, {**FOUND[1], "identity": "i"}))) as (url, seen):
            outcomes = list(Client(url, timeout=600).results(["u"], take=True))
            self.assertEqual((outcomes[0].error.code, seen), ("bad_request", []))
            outcomes = list(Client(url, timeout=600).results([Enqueued("u", "i")], take=True))
            self.assertEqual([(request.method, request.path) for request in seen],
                             [("GET", "/predictions?uri=u&identity=i"), ("DELETE", "/predictions?uri=u&identity=i")])

    def test_a_record_that_waits_for_a_thread_has_what_is_left_of_the_limit(self):
        from cluster_serving._api import CALL, Call

        with servers.api(answers(FOUND)) as (url, _):
            client = Client(url, timeout=600)
            control = Call()
            control.begun -= 1000
            CALL.set(control)
            self.addCleanup(CALL.set, None)
            self.assertEqual(client._outcome("u", False, time.monotonic() + 600).error, None)

    def test_asyncio_reads_iterables_of_both_kinds(self):
        async def records():
            for i in range(40):
                yield f"u{i}", {"x": i}

        async def run(url):
            async with AsyncClient(url, timeout=600) as client:
                return await client.enqueue_many(records()) + await client.enqueue_many([("v", {"x": 1}, "mine")])

        with servers.api(answers(QUEUED)) as (url, seen):
            enqueued = asyncio.run(run(url))
        self.assertEqual([each.uri for each in enqueued], [f"u{i}" for i in range(40)] + ["v"])
        self.assertEqual(enqueued[-1].identity, "mine")


class Sqs(unittest.TestCase):
    QUEUE = "/123456789012/queue"

    def setUp(self):
        os.environ.pop("AWS_ENDPOINT_URL", None)
        self.keys = {"credentials": lambda: Credentials("AKID", "secret"), "region": "eu-west-1", "timeout": 600}

    def taken(self, *refused):
        """An answer that takes every message but those whose uri is named: for now, or for good with a "!"."""
        def answer(request):
            taken, failed = [], []
            for entry in json.loads(request.body)["Entries"]:
                uri = json.loads(entry["MessageBody"])["uri"]
                if uri in refused or f"{uri}!" in refused:
                    failed.append({"Id": entry["Id"], "SenderFault": f"{uri}!" in refused, "Code": "InternalError"})
                else:
                    taken.append({"Id": entry["Id"], "MessageId": "m"})
            return 200, {"Successful": taken, "Failed": failed}

        return answer

    def test_many_records_are_sent_in_calls_of_ten_and_of_a_MiB(self):
        async def in_asyncio(url):
            async with AsyncClient(sqs=url, **self.keys) as client:
                return await client.enqueue_many((f"u{i}", {"x": i}) for i in range(25))

        with servers.api(self.taken()) as (url, seen):
            for call in (lambda: Client(sqs=url + self.QUEUE, **self.keys).enqueue_many(
                    (f"u{i}", {"x": i}) for i in range(25)), lambda: asyncio.run(in_asyncio(url + self.QUEUE))):
                seen.clear()
                enqueued = call()
                self.assertEqual([each.uri for each in enqueued], [f"u{i}" for i in range(25)])
                entries = [json.loads(each.body)["Entries"] for each in seen]
                self.assertEqual(sorted(map(len, entries)), [5, 10, 10])
                self.assertEqual({each["MessageAttributes"]["identity"]["StringValue"] for some in entries for each in some},
                                 {each.identity for each in enqueued})
            self.assertEqual((seen[0].path, seen[0].headers["x-amz-target"]), ("/", "AmazonSQS.SendMessageBatch"))
            self.assertIn("/eu-west-1/sqs/aws4_request", seen[0].headers["authorization"])
            self.assertEqual(json.loads(seen[0].body)["QueueUrl"], url + self.QUEUE)
            seen.clear()
            Client(sqs=url + self.QUEUE, **self.keys).enqueue("a", {"x": 1}, canary_key="user-1")
            (entry,) = json.loads(seen[0].body)["Entries"]
            self.assertEqual(entry["MessageAttributes"]["canary-key"], {"DataType": "String", "StringValue": "user-1"})
            self.assertNotIn("DelaySeconds", entry)
            self.assertNotIn("MessageGroupId", entry)
            seen.clear()
            Client(sqs=url + self.QUEUE, **self.keys).enqueue("a", {"x": 1}, expires_after=901, delay_seconds=900)
            (entry,) = json.loads(seen[0].body)["Entries"]
            self.assertEqual(entry["MessageAttributes"]["expiresAfter"]["StringValue"], "901")
            self.assertEqual(entry["DelaySeconds"], 900)
            seen.clear()
            Client(sqs=url + self.QUEUE, **self.keys).enqueue("a", {"x": 1}, model="fraud")
            (entry,) = json.loads(seen[0].body)["Entries"]
            self.assertEqual(entry["MessageAttributes"]["model"], {"DataType": "String", "StringValue": "fraud"})
            self.assertEqual(entry["MessageGroupId"], "fraud")
            seen.clear()
            mixed = [Record(f"u{i}", {"x": i}, priority=("high", "normal", None)[i % 3]) for i in range(9)]
            enqueued = Client(sqs=url + self.QUEUE, **self.keys).enqueue_many(mixed)
            self.assertEqual([each.uri for each in enqueued], [f"u{i}" for i in range(9)])
            bodies = [json.loads(each.body) for each in seen]
            self.assertEqual([(each["QueueUrl"], [json.loads(entry["MessageBody"])["uri"] for entry in each["Entries"]])
                              for each in bodies],
                             [(url + self.QUEUE, ["u1", "u2", "u4", "u5", "u7", "u8"]),
                              (f"{url}{self.QUEUE}-high", ["u0", "u3", "u6"])])
            seen.clear()
            large = {"x": np.zeros(100_000, np.float32)}
            Client(sqs=url + self.QUEUE, **self.keys).enqueue_many([("a", large), ("b", large), ("c", {"x": 1})])
            self.assertEqual([len(json.loads(each.body)["Entries"]) for each in seen], [1, 2])

    def test_records_of_one_uri_are_sent_one_after_the_other(self):
        records = [("a" if i % 3 else f"u{i}", {"x": np.zeros(1 + 16 * i, np.float32)}) for i in range(40)]

        async def in_asyncio(**where):
            async with AsyncClient(**where) as client:
                return await client.enqueue_many(records)

        def slow(answer):
            def delayed(request):
                time.sleep(0.001 * (len(request.body) * 7919 % 29))
                order.append(json.loads(request.body))
                return answer(request)
            return delayed

        order = []
        for answer, where in ((self.taken(), lambda url: {"sqs": url + self.QUEUE, **self.keys}),
                              (answers(QUEUED), lambda url: {"url": url, "timeout": 600})):
            with servers.api(slow(answer)) as (url, _):
                for call in (lambda: Client(**where(url)).enqueue_many(records), lambda: asyncio.run(in_asyncio(**where(url)))):
                    order.clear()
                    self.assertEqual([each.uri for each in call()], [uri for uri, _ in records])
                    bodies = [json.loads(entry["MessageBody"]) for each in order for entry in each.get("Entries", ())] or order
                    sent = [len(each["data"]) for each in bodies if each["uri"] == "a"]
                    self.assertEqual((len(sent), sent), (26, sorted(sent)))
                    self.assertEqual(len(bodies), 40)
                    for each in order:
                        uris = [json.loads(entry["MessageBody"])["uri"] for entry in each.get("Entries", ())]
                        self.assertEqual(len(uris), len(set(uris)))

    def test_what_is_refused_for_now_is_sent_again_alone_and_each_other_failure_is_named(self):
        given = [self.taken("b", "c"), self.taken("b")]
        too_large = {"x": np.zeros(300_000, np.float32)}
        records = [("a", {"x": 1}), ("b", {"x": 1}), ("c", {"x": 1}), ("d", {"x": too_large}), ("e", too_large)]
        with servers.api(lambda request: (given.pop(0) if len(given) > 1 else given[0])(request)) as (url, seen):
            with self.assertRaises(EnqueueError) as raised:
                Client(sqs=url + self.QUEUE, **self.keys).enqueue_many(records)
            self.assertEqual([each.uri for each in raised.exception.enqueued], ["a", "c"])
            self.assertEqual([(each.uri, each.code) for each in raised.exception.errors],
                             [("b", "queue_unavailable"), ("d", "bad_request"), ("e", "too_large")])
            self.assertEqual([len(json.loads(each.body)["Entries"]) for each in seen], [3, 2, 1, 1])
        with servers.api(self.taken("a!")) as (url, seen):
            error = error_of(lambda: Client(sqs=url + self.QUEUE, **self.keys).enqueue("a", {"x": 1}))
            self.assertEqual((error.code, error.uri, len(seen)), ("queue_unavailable", "a", 1))

    def test_a_call_that_failed_is_sent_again_and_its_error_says_why(self):
        throttled = (400, {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slowly"})
        given = [lambda _: throttled, lambda _: (500, b""), self.taken()]
        with servers.api(lambda request: given.pop(0)(request)) as (url, seen):
            Client(sqs=url + self.QUEUE, **self.keys).enqueue("a", {"x": 1})
            self.assertEqual(len(seen), 3)
        for name, status, code in (("com.amazonaws.sqs#QueueDoesNotExist", 400, "queue_unavailable"),
                                   ("AccessDeniedException", 403, "unauthorized"), ("ExpiredToken", 403, "unauthorized")):
            with servers.api(lambda request: (status, {"__type": name, "message": "because"})) as (url, seen):
                error = error_of(lambda: Client(sqs=url + self.QUEUE, **self.keys).enqueue("a", {"x": 1}))
                self.assertEqual((error.code, error.uri, "because" in error.message, len(seen)), (code, "a", True, 1))

    def test_an_answer_that_names_no_message_is_no_success(self):
        for body in ({}, [], {"Successful": 1}, {"Successful": [{"Id": 0}, 1]}, {"Failed": []}):
            with servers.api(answers((200, body))) as (url, _):
                error = error_of(lambda: Client(sqs=url + self.QUEUE, **self.keys).enqueue("a", {"x": 1}))
                self.assertEqual((error.code, error.uri), ("queue_unavailable", "a"))

    def test_the_address_of_a_queue(self):
        for wrong in ("queue", "https://sqs.eu-west-1.amazonaws.com", "ftp://a/b"):
            self.assertEqual(error_of(lambda: Client(sqs=wrong)).code, "bad_config")
        client = Client(sqs="https://sqs.eu-central-1.amazonaws.com/1/q", credentials=lambda: Credentials("A", "B"))
        self.assertEqual((client._sqs._api.url, client._sqs._api._access._region),
                         ("https://sqs.eu-central-1.amazonaws.com", "eu-central-1"))
        self.assertEqual(error_of(lambda: client.query("u")).code, "bad_config")


class Fork(unittest.TestCase):
    def test_a_process_that_is_forked_has_connections_of_its_own(self):
        with servers.api(lambda request: (200, {"status": "queued"})) as (url, _):
            client = Client(url, timeout=600)
            client.status("u")
            (kept, _), = client._api._http._idle
            child = os.fork()
            if child == 0:
                os._exit(0 if client.status("u") == "queued" and client._api._http._idle[0][0] is not kept else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(client.status("u"), "queued")


class Access(unittest.TestCase):
    def setUp(self):
        for name in [name for name in os.environ if name.startswith(("CLUSTER_SERVING_", "AWS_"))]:
            os.environ.pop(name)

    def sent(self, **options):
        with servers.api(answers((200, {"status": "queued"}))) as (url, seen):
            Client(url, timeout=600, **options).status("u")
            return {name: seen[0].headers[name] for name in ("authorization", "x-api-key") if name in seen[0].headers}

    def test_one_way_to_say_who_calls(self):
        self.assertEqual(self.sent(), {})
        self.assertEqual(self.sent(api_key="k"), {"x-api-key": "k"})
        os.environ["CLUSTER_SERVING_TOKEN"] = TOKEN
        self.assertEqual(self.sent(), {"authorization": f"Bearer {TOKEN}"})
        self.assertEqual(self.sent(api_key="k"), {"x-api-key": "k"})
        self.assertEqual(self.sent(auth="none"), {})
        for wrong in ({"token": TOKEN, "api_key": "k"}, {"auth": "iam", "token": TOKEN}, {"auth": "jwt", "api_key": "k"},
                      {"auth": "what"}, {"token": "a secret\r\n"}, {"auth": "api-key"}, {"auth": "iam"}):
            error = error_of(lambda: Client("http://localhost", **wrong))
            self.assertEqual(error.code, "bad_config")
            self.assertNotIn("secret", error.message)

    def test_an_address_of_api_gateway_is_signed_if_there_are_credentials(self):
        from cluster_serving._access import Access as Chosen

        chosen = Chosen("https://a1.execute-api.eu-west-1.amazonaws.com")
        self.assertEqual((chosen.kind, Chosen("https://example.com").kind), ("iam", "none"))
        missing = unittest.mock.Mock(side_effect=ServingError("unauthorized", "there are none"))
        with unittest.mock.patch("cluster_serving._access.find_credentials", missing):
            asked = ("GET", "/", {"Host": "a"}, b"", Deadline(600_000, "a"))
            self.assertEqual(Chosen(chosen._url).headers(*asked), {})
            self.assertEqual(error_of(lambda: Chosen(chosen._url, "iam").headers(*asked)).code, "unauthorized")

    def test_a_signature_is_that_of_aws(self):
        """Made by botocore 1.44 for the same request, keys and time; see side_by_side.py."""
        added = sign("POST", "/a%20b/predictions?uri=a%2Fb&identity=i", {"Host": "a.example", "Content-Type": "application/json"},
                     b'{"x":1}', service="execute-api", region="eu-west-1",
                     credentials=Credentials("AKID", "made/up+secret", "to/ken="),
                     now=datetime(2026, 11, 23, 1, 2, 3, tzinfo=timezone.utc))
        self.assertEqual(added["Authorization"], SIGNATURE)

    def test_credentials_of_a_profile(self):
        import tempfile

        with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
            file.write("[default]\naws_access_key_id=A\naws_secret_access_key=B\n[other]\nrole_arn=x\n")
            file.flush()
            os.environ.update(AWS_SHARED_CREDENTIALS_FILE=file.name, AWS_CONFIG_FILE="/dev/null", AWS_EC2_METADATA_DISABLED="true")
            self.addCleanup(os.environ.clear)
            self.addCleanup(lambda saved=dict(os.environ): os.environ.update(saved))
            self.assertEqual(find_credentials()[:2], ("A", "B"))
            os.environ["AWS_PROFILE"] = "other"
            self.assertEqual(error_of(find_credentials).code, "unauthorized")
            os.environ.update(AWS_ACCESS_KEY_ID="C", AWS_SECRET_ACCESS_KEY="D")
            self.assertEqual(find_credentials(), ("C", "D", None))

    def test_the_endpoint_of_CloudFormation_outweighs_that_of_all_services(self):
        missing = b"<ErrorResponse><Error><Code>ValidationError</Code><Message>s does not exist</Message></Error></ErrorResponse>"
        with servers.api(answers((400, missing))) as (url, seen):
            os.environ.update(AWS_ENDPOINT_URL="http://127.0.0.1:1", AWS_ENDPOINT_URL_CLOUDFORMATION=url)
            error = error_of(lambda: connect("s", region="eu-west-1", credentials=lambda: Credentials("a", "b"), timeout=600))
            self.assertEqual((error.code, len(seen)), ("not_found", 1))

    def test_a_profile_that_boto3_does_not_find(self):
        boto3 = unittest.mock.Mock()
        boto3.Session.side_effect = KeyError("The config profile (nope) could not be found")
        with unittest.mock.patch.dict("sys.modules", boto3=boto3), unittest.mock.patch.dict(os.environ, AWS_PROFILE="nope"):
            error = error_of(find_credentials)
        self.assertEqual(error.code, "unauthorized")
        self.assertIn("(nope) could not be found", error.message)

    def test_what_an_extra_would_bring_is_named(self):
        os.environ.update(AWS_SHARED_CREDENTIALS_FILE="/dev/null", AWS_CONFIG_FILE="/dev/null")
        for module, call in (("boto3", find_credentials),
                             ("redis", lambda: __import__("zoo.serving.client").serving.client.InputQueue("h", 1).db)):
            with self.subTest(module):
                try:
                    __import__(module)
                except ImportError:
                    with self.assertRaisesRegex((ImportError, ServingError), r"pip install 'cluster-serving\[(aws|zoo)\]'"):
                        call()


SIGNATURE = ("AWS4-HMAC-SHA256 Credential=AKID/20261123/eu-west-1/execute-api/aws4_request, "
             "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
             "Signature=28253112bc6ee3c68848567bac4b92cbb602f8ecf64e2ce4d0cb58d05e6da3ee")

if __name__ == "__main__":
    unittest.main()
