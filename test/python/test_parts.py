"""The parts of cluster_serving, without a service."""
import asyncio
import inspect
import json
import os
import socket
import unittest
import unittest.mock
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import numpy as np
from cluster_serving import AsyncClient, Client, Credentials, ServingError, _arrow, _inputs, _redis, _sigv4, connect, find_stack
from cluster_serving import _results
from cluster_serving._access import Access
from cluster_serving._api import Api
from cluster_serving._errors import CODES
from wkr_serving.client.deadline import Deadline
from wkr_serving.client.transport import Answer, WKRError

LONG = 600_000


def error_of(call):
    try:
        return call()
    except Exception as error:
        return error


class Inputs(unittest.TestCase):
    def test_an_error_says_what_it_got(self):
        self.assertEqual([_inputs.kind_of(value) for value in (None, 1, "", [])], ["nothing", "a int", "a str", "a list"])
        for wrong, says in (("", "got an empty text"), (None, "got nothing"), (1, "got a int")):
            self.assertTrue(str(error_of(lambda: _inputs.check_uri(wrong))).endswith(says), wrong)

    def test_a_uri_has_1024_bytes_of_any_characters_but_control_ones(self):
        for right in ("u", "é" * 512, "u" * 1024, "a b/ü😀~ "):
            self.assertEqual(_inputs.check_uri(right), right)
        for wrong in ("u" * 1025, "é" * 513, "\0", "\x1f", "\x7f", "a\ud800"):
            self.assertEqual(error_of(lambda: _inputs.check_uri(wrong)).code, "bad_request", ascii(wrong[:9]))

    def test_base64_is_of_either_kind_with_and_without_padding(self):
        image = bytes([0xFB, 0xEF, 0xFF, 0xFE])
        for text in ("++///g==", "--__/g", " + +\n///g= ", "--__" "_g"):
            self.assertEqual(_inputs._from_base64(text), image, text)
        self.assertEqual(_inputs._from_base64(""), b"")
        for wrong in ("+", "++/?", "é", None, b"++//"):
            self.assertEqual(error_of(lambda: _inputs._from_base64(wrong)).code, "bad_request", wrong)

    def test_numbers_are_float32_where_that_is_exact(self):
        for value, dtype in ((1, "float32"), (True, "float32"), ([0.5, 2**24], "float32"), ([2**24 + 1], "float64"), ([0.1], "float64"),
                             (float("nan"), "float32"), (None, "float32"), ((1, 2), "float32"), ([np.float64(0.1)], "float64")):
            found = _inputs._read(value)
            self.assertEqual((str(found.dtype), found.shape), (dtype, np.shape(value if value is not None else 0)), value)
        self.assertEqual(_inputs._read([["a", "b"], ["", "d"]]).tolist(), [["a", "b"], ["", "d"]])

    def test_lists_and_arrays_have_16_dimensions_at_most(self):
        nested = 1
        for _ in range(16):
            nested = [nested]
        self.assertEqual(_inputs._read(nested).shape, (1,) * 16)
        self.assertEqual(error_of(lambda: _inputs._read([nested])).code, "too_large")
        self.assertEqual(_inputs._read(np.zeros((1,) * 16)).shape, (1,) * 16)

    def test_texts_with_bars_are_refused_where_there_are_several(self):
        texts = lambda *given: np.array(given, dtype=object)  # noqa: E731
        self.assertEqual(_arrow._without_bars("x", texts("a|b")), ["a|b"])
        self.assertEqual(_arrow._without_bars("x", texts("a", "b")), ["a", "b"])
        for several in (texts("a|b", "c"), texts("a", "b", "|")):
            self.assertRegex(str(error_of(lambda: _arrow._without_bars("x", several))), '^bad_request: input "x": this wire format separates')

    def test_numbers_that_float32_does_not_hold_are_refused_or_rounded(self):
        self.assertEqual(_arrow._float32("x", np.array([[2**24, -(2**24)]])).tolist(), [2**24, -(2**24)])
        self.assertEqual(_arrow._float32("x", np.array([0.1, np.inf, np.nan])).tolist()[:2], [float(np.float32(0.1)), np.inf])
        for wrong in (np.array([2**24 + 1]), np.array([1, 2**64 - 1], np.uint64), np.array([1e39]), np.array([np.inf, -1e39])):
            self.assertEqual(error_of(lambda: _arrow._float32("x", wrong)).code, "bad_request", wrong)

    def test_a_sparse_tensor_of_the_former_client_is_three_arrays(self):
        three = [np.array([[0]]), np.array([5.0]), np.array([2])]
        self.assertEqual(_arrow.modern(three)["shape"], [2])
        self.assertIs(_arrow.modern(three)["indices"], three[0])
        self.assertIs(_arrow.modern(three)["values"], three[1])
        for other in ([1, 2], [], np.zeros(2), "x", None):
            self.assertIs(_arrow.modern(other), other)
        for wrong in (three[:2], [*three, three[0]]):
            self.assertEqual(error_of(lambda: _arrow.modern(wrong)).code, "bad_request")


class Callers(unittest.TestCase):
    API = "https://a1.execute-api.eu-west-1.amazonaws.com"

    def setUp(self):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLUSTER_SERVING_"))}
        patched = unittest.mock.patch.dict(os.environ, clean, clear=True)
        patched.start()
        self.addCleanup(patched.stop)

    def headers_of(self, access):
        return error_of(lambda: access.headers("GET", "/", {"Host": "a"}, b"", Deadline(LONG, "a")))

    def test_only_who_says_nothing_calls_without_the_credentials_that_are_missing(self):
        missing = unittest.mock.Mock(side_effect=ServingError("unauthorized", "there are none"))
        with unittest.mock.patch("cluster_serving._access.find_credentials", missing):
            self.assertEqual(self.headers_of(Access(self.API)), {})
            self.assertEqual(self.headers_of(Access(self.API, "iam")).code, "unauthorized")
        self.assertEqual(self.headers_of(Access(self.API, credentials=missing)).code, "unauthorized")

    def test_the_region_is_that_of_the_address_or_given_or_of_a_variable(self):
        keys = {"credentials": lambda: Credentials("a", "b")}
        self.assertEqual(Access(self.API, region="us-east-1", **keys)._region, "eu-west-1")
        os.environ["AWS_DEFAULT_REGION"] = "r-2"
        self.assertEqual(Access("https://a", region="us-east-1", **keys)._region, "us-east-1")
        self.assertEqual(Access("https://a", **keys)._region, "r-2")
        os.environ["AWS_REGION"] = "r-1"
        self.assertEqual(Access("https://a", **keys)._region, "r-1")
        for other in ("http://a1.execute-api.eu-west-1.amazonaws.com", "https://execute-api.eu-west-1.amazonaws.com",
                      "https://a1.execute-api.eu-west-1.amazonaws.com.example"):
            self.assertEqual((Access(other).kind, Access(self.API).kind), ("none", "iam"), other)

    def test_two_ways_to_say_who_calls_are_named(self):
        keys = {"credentials": lambda: Credentials("a", "b")}
        token, key = "a token (token=, CLUSTER_SERVING_TOKEN)", "an API key (api_key=, CLUSTER_SERVING_API_KEY)"
        for given, names in (({"token": "a" * 16, "api_key": "k"}, f"{token} and {key}"),
                             ({"token": "a" * 16, **keys}, f"{token} and AWS credentials"),
                             ({"auth": "iam", "api_key": "k"}, f"auth iam and {key}"),
                             ({"auth": "none", "token": "a" * 16}, f"auth none and {token}")):
            error = error_of(lambda: Access("http://a", region="r-1", **given))
            self.assertEqual(error.message, f"{names} exclude each other; a request has one way to say who calls")
        for auth, name in (("jwt", token), ("api-key", key)):
            self.assertEqual(error_of(lambda: Access("http://a", auth)).message, f"auth {auth} needs {name}")
        self.assertRegex(error_of(lambda: Access("http://a", "iam")).message, "^auth iam needs a region for http://a: ")

    def test_a_token_and_a_key_have_their_lengths(self):
        for right in ("a" * 16, "a" * 8192, "aZ09-._~+/aZ09-=="):
            self.assertEqual(self.headers_of(Access("http://a", token=right)), {"Authorization": f"Bearer {right}"})
        for wrong in ("a" * 15, "a" * 8193, "a" * 16 + "\n", "é" * 16, ""):
            self.assertEqual(error_of(lambda: Access("http://a", token=wrong)).code, "bad_config", wrong)
        for right in ("!", "~" * 512):
            self.assertEqual(self.headers_of(Access("http://a", api_key=right)), {"X-Api-Key": right})
        for wrong in ("", "a" * 513, "a b", "a\n", "é"):
            self.assertEqual(error_of(lambda: Access("http://a", api_key=wrong)).code, "bad_config", wrong)

    def test_a_clock_that_is_more_than_four_minutes_off_is_corrected_once(self):
        access = Access(self.API, credentials=lambda: Credentials("a", "b"))
        date = lambda **shift: format_datetime(datetime.now(timezone.utc) + timedelta(**shift))  # noqa: E731
        for small in (date(), date(minutes=3), date(minutes=-3), None, "", "yesterday"):
            self.assertFalse(access.corrects_clock(small), small)
        for shift in ({"hours": 2}, {"minutes": -5}):
            self.assertTrue(access.corrects_clock(date(**shift)))
            self.assertFalse(access.corrects_clock(date(**shift)))
            stamp = datetime.strptime(self.headers_of(access)["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
            off = stamp - datetime.now(timezone.utc) - timedelta(**shift)
            self.assertLess(abs(off), timedelta(minutes=1))
        self.assertFalse(Access("http://a").corrects_clock(date(hours=2)))

    def test_credentials_are_those_that_boto3_finds_for_the_profile(self):
        frozen = unittest.mock.Mock(access_key="A", secret_key="B", token="C")
        boto3 = unittest.mock.Mock()
        with unittest.mock.patch.dict("sys.modules", boto3=boto3):
            for given in (None, unittest.mock.Mock(get_frozen_credentials=lambda: None)):
                _sigv4._session.cache_clear()
                boto3.Session.return_value.get_credentials.return_value = given
                error = error_of(_sigv4.find_credentials)
                self.assertEqual((error.code, "boto3 finds none" in str(error)), ("unauthorized", True))
            boto3.Session.return_value.get_credentials.return_value = unittest.mock.Mock(get_frozen_credentials=lambda: frozen)
            self.assertEqual(_sigv4.find_credentials(), ("A", "B", "C"))
            # Variables outweigh it, both of them.
            os.environ["AWS_ACCESS_KEY_ID"] = "D"
            self.assertEqual(_sigv4.find_credentials()[0], "A")
            os.environ["AWS_SECRET_ACCESS_KEY"] = "E"
            self.assertEqual(_sigv4.find_credentials(), ("D", "E", None))
            os.environ["AWS_SESSION_TOKEN"] = "F"
            self.assertEqual(_sigv4.find_credentials(), ("D", "E", "F"))
        _sigv4._session.cache_clear()

    def test_each_code_has_a_status_and_an_unknown_one_is_internal(self):
        for code, (status, retryable) in CODES.items():
            error = ServingError(code, "m", "u", 1.5)
            self.assertEqual((error.code, error.status, error.retryable, error.uri, error.retry_after), (code, status, retryable, "u", 1.5))
        for unknown in ("other", None, [], 1):
            self.assertEqual(ServingError(unknown, "m").code, "internal")


class Settings(unittest.TestCase):
    def test_each_call_has_30_seconds_and_the_look_for_a_stack_15(self):
        found = [inspect.signature(each).parameters["timeout"].default for each in (Client, AsyncClient, connect, find_stack)]
        self.assertEqual(found, [30, 30, 30, 15])
        for made in (Client("http://a"), AsyncClient("http://a")):
            self.assertEqual(made._timeout, 30)

    def test_a_client_is_closed_after_its_block(self):
        for name in ("close", "shutdown"):
            made = AsyncClient("http://a")
            at = made._client if name == "close" else made._pool

            async def use():
                async with made as entered:
                    self.assertIs(entered, made)
                    self.assertFalse(ended.called)

            with unittest.mock.patch.object(at, name) as ended:
                asyncio.run(use())
            self.assertEqual(ended.call_count, 1)

    def test_so_many_calls_may_run_at_once(self):
        for most in (1, 1000):
            self.assertEqual(AsyncClient("http://a", max_concurrency=most)._pool._max_workers, most)
        self.assertEqual(AsyncClient("http://a")._pool._max_workers, 32)
        for wrong in (0, 1001, 1.5, "1", None):
            error = error_of(lambda: AsyncClient("http://a", max_concurrency=wrong))
            self.assertEqual((error.code, error.message), ("bad_request", f"max_concurrency: expected 1 to 1000, got {wrong!r}"))


class Retries(unittest.TestCase):
    def tried(self, *answers, method="GET", headers=None, limit=LONG):
        """How often a request is sent, and the pauses between. An answer is a status with Retry-After, or an error's code."""
        api, sent, pauses = Api("http://a", Access("none")), [], []

        def request(*_, **__):
            given = answers[min(len(sent), len(answers) - 1)]
            sent.append(given)
            if isinstance(given, str):
                raise WKRError(given, "lost")
            status, after = given
            return Answer(status, "", b"{}", {} if after is None else {"Retry-After": after})

        deadline = Deadline(limit, "u")
        with unittest.mock.patch.object(api._http, "request", request), \
                unittest.mock.patch("random.random", lambda: 0.5), \
                unittest.mock.patch.object(deadline, "pause", pauses.append):
            error_of(lambda: api.answer(method, "/p", deadline, None, headers))
        return len(sent), [round(each, 3) for each in pauses]

    def test_a_pause_is_what_the_service_asks_for_and_a_part_of_one_that_doubles(self):
        for answers, expected in ((((429, None),), (3, [0.1, 0.2])), (((429, "2"),), (3, [2.1, 2.2])),
                                  (((429, "2.01"),), (1, [])), (((429, "2"), (429, "3")), (2, [2.1])),
                                  (((503, None), (200, None)), (2, [0.1])), (((429, "soon"),), (3, [0.1, 0.2])),
                                  (((429, "-1"),), (3, [0.1, 0.2])), (((429, "nan"),), (3, [0.1, 0.2]))):
            self.assertEqual(self.tried(*answers), expected, answers)
        self.assertEqual(self.tried((429, "1"), limit=1000), (1, []))

    def test_what_may_have_arrived_is_sent_again_where_that_does_no_harm(self):
        same = {"Idempotency-Key": "i"}
        for answer, often in (((429, None), (3, 3, 3)), ((502, None), (3, 1, 3)), ((503, None), (3, 1, 3)),
                              ((500, None), (1, 1, 1)), ((504, None), (1, 1, 1)), ((200, None), (1, 1, 1)),
                              ("unreachable", (3, 3, 3)), ("connection_lost", (3, 1, 3)), ("too_large", (1, 1, 1))):
            found = tuple(self.tried(answer, method=method, headers=headers)[0]
                          for method, headers in (("GET", None), ("POST", None), ("POST", same)))
            self.assertEqual(found, often, answer)


class Results(unittest.TestCase):
    def test_an_answer_that_is_no_result_says_what_is_wrong(self):
        whole = {"uri": "u", "status": "succeeded", "outputs": []}
        output = {"name": "n", "dtype": "int64", "shape": [1], "data": [1]}
        self.assertEqual(_results.result_of({**whole, "outputs": [output]}, {}).outputs["n"].tolist(), [1])
        for wrong, says in (
                (None, "a result has no uri"), ({**whole, "uri": 1}, "a result has no uri"),
                ({**whole, "large": {}}, "a large result has no address"), ({**whole, "outputs": {}}, "outputs is not a list"),
                ({**whole, "outputs": [1]}, "an output has no name"), ({**whole, "outputs": [{}]}, "an output has no name"),
                ({**whole, "outputs": [{**output, "name": 1}]}, "an output has no name"),
                ({**whole, "outputs": [{**output, "data": 1}]}, "data is not a list"),
                ({**whole, "outputs": [{**output, "shape": 1}]}, "shape is not a list"),
                ({**whole, "outputs": [{**output, "dtype": "int7"}]}, "unknown dtype 'int7': update the client"),
                ({**whole, "outputs": [{**output, "dtype": 1}]}, "unknown dtype 1: update the client"),
                ({**whole, "outputs": [{**output, "shape": [2]}]}, "1 elements are not of shape [2]"),
                ({**whole, "outputs": [{**output, "shape": [-1]}]}, "1 elements are not of shape [-1]"),
                ({**whole, "outputs": [{**output, "shape": ["1"]}]}, "1 elements are not of shape ['1']"),
                ({**whole, "outputs": [{**output, "dtype": "int8", "data": [128]}]}, "an element is not an int8"),
                ({**whole, "outputs": [{**output, "dtype": "uint8", "data": [-1]}]}, "an element is not a uint8"),
                ({**whole, "outputs": [{**output, "data": ["x"]}]}, "an element is not an int64"),
                ({**whole, "outputs": [{**output, "data": [1.5]}]}, "an element is not an int64"),
                ({**whole, "outputs": [{**output, "dtype": "bool"}]}, "an element is not a bool"),
                ({**whole, "outputs": [{**output, "dtype": "float32", "data": ["1"]}]}, "an element is not a float32")):
            error = error_of(lambda: _results.result_of(wrong, {}))
            self.assertEqual((error.code, error.message), ("internal", f"the answer of the service cannot be read: {says}"))
        failed = error_of(lambda: _results.result_of({"uri": "u", "code": "model_failed"}, {}))
        self.assertEqual((failed.code, failed.message, failed.uri), ("model_failed", "the record failed", "u"))

    def test_elements_keep_their_values(self):
        for dtype, data, expected in (("int8", [-128, 127], [-128, 127]), ("uint8", [0, 255], [0, 255]),
                                      ("int64", ["9007199254740993"], [2**53 + 1]), ("bool", [True, False], [True, False]),
                                      ("float32", [1, 0.5], [1.0, 0.5]), ("string", ["a", 1], ["a", "1"]), ("int32", [], [])):
            found = _results._array_of({"data": data, "shape": [len(data)]}, dtype)
            self.assertEqual((found.tolist(), found.dtype), (expected, np.dtype(object if dtype == "string" else dtype)))
        self.assertTrue(np.isnan(_results._array_of({"data": [None], "shape": []}, "float64")))

    def test_a_prediction_without_its_model_has_the_dtypes_of_JSON(self):
        for data, dtype in ((["a"], "object"), ([True], "bool"), ([1], "int64"), ([1, 1.5], "float64"), ([True, 1], None)):
            text = '{value=%s}' % json.dumps({"data": data, "shape": [len(data)]})
            found = error_of(lambda: _results.prediction_of(text, "v", None))
            self.assertEqual(str(found.output.dtype) if dtype else found.code, dtype or "internal", data)
        pair = _results.prediction_of('{value=[{"data":[1],"shape":[1]},{"data":[],"shape":[0]}]}', "v", None)
        self.assertEqual((list(pair.outputs), pair.model), (["output0", "output1"], "v"))
        for other in ("[]", "1", '{"data":[1]}', '{"data":[1],"shape":[1],"more":1}'):
            found = _results.prediction_of("{value=%s}" % other, "v", None)
            self.assertEqual((dict(found.outputs), found.value), ({}, json.loads(other)))
        for wrong in (None, "value=1}", "{value=1"):
            self.assertIn("a prediction is not a {value=…}", str(error_of(lambda: _results.prediction_of(wrong, "v", None))))

    def test_labels_are_those_of_the_last_axis(self):
        port = {"name": "p", "datatype": "FP32", "parameters": {"names": ["a", 1]}}
        model = _results.model_of({"outputs": [port], "parameters": {"post_processing": "f"}, "platform": "worker"})
        self.assertEqual((model.filter, model.is_worker, model.outputs[0].labels), ("f", True, ["a", "1"]))
        for shape, labels in (([2], {"p": ["a", "1"]}), ([1, 2], {"p": ["a", "1"]}), ([2, 1], {}), ([], {})):
            data = [0] * (2 if 2 in shape else 1)
            text = '{value=%s}' % json.dumps({"data": data, "shape": shape})
            self.assertEqual(_results.prediction_of(text, "v", model).labels, labels, shape)
        for metadata in (None, {}, {"outputs": 1}, {"outputs": [{"name": "p"}]}, {"outputs": [{"name": "p", "datatype": "X"}]}):
            self.assertEqual(error_of(lambda: _results.model_of(metadata)).code, "internal", metadata)

    def test_where_an_answer_without_outputs_comes_from(self):
        Model = _results.Model
        self.assertEqual([Model([], filter, worker).source for filter in ("f", None) for worker in (True, False)],
                         ["its filter f", "its filter f", "its worker", "its filter"])
        sources = [_results.result_of({"uri": "u", "status": "succeeded", "model": "v", **more}, models).source
                   for more in ({"filtered": 1}, {"value": 1}) for models in ({}, {"v": Model([], "f", False)})]
        self.assertEqual(sources, ["its filter", "its filter f", "its worker", "its worker"])

    def test_the_job_of_a_service(self):
        for statistics, job in (({"model_stats": [{"name": "j"}, {"name": "k"}]}, "j"), (None, None), ({}, None),
                                ({"model_stats": []}, None), ({"model_stats": [1]}, None),
                                ({"model_stats": [{"name": 1}]}, None)):
            self.assertEqual(_results.job_of(statistics), job)


class RedisSocket(unittest.TestCase):
    """Every wait ends with its call, regardless of the socket's own limit."""

    def setUp(self):
        ours, self.theirs = socket.socketpair()
        self.ours = _redis._Socket(ours.family, ours.type, ours.proto, ours.detach())
        self.addCleanup(self.ours.close)
        self.addCleanup(self.theirs.close)

    def within(self, milliseconds):
        token = _redis._DEADLINE.set(Deadline(milliseconds, "u"))
        self.addCleanup(_redis._DEADLINE.reset, token)

    def test_a_wait_has_what_is_left_of_the_call_or_less(self):
        self.theirs.sendall(b"12345")
        for own, call, least, most in ((None, LONG, 590, 600), (7, LONG, 7, 7), (7000, LONG, 590, 600), (None, -1, None, None),
                                       (7, -1, 7, 7)):
            self.within(call)
            self.ours.settimeout(own)
            self.ours.recv(1)
            found = self.ours.gettimeout()
            self.assertTrue(found is None if least is None else least <= found <= most, (own, call, found))
            self.ours.sendall(b"x")
            found = self.ours.gettimeout()
            self.assertTrue(found is None if least is None else least <= found <= most, (own, call, found))

    def test_a_call_that_is_over_neither_sends_nor_receives(self):
        self.within(0)
        buffer = bytearray(1)
        for call in (lambda: self.ours.sendall(b"x"), lambda: self.ours.recv(1), lambda: self.ours.recv_into(buffer)):
            self.assertIsInstance(error_of(call), TimeoutError)
        self.theirs.setblocking(False)
        self.assertIsInstance(error_of(lambda: self.theirs.recv(1)), BlockingIOError)

    def test_an_answer_is_read_up_to_its_limit_and_the_next_one_anew(self):
        with unittest.mock.patch("cluster_serving._redis.MAX_BYTES", 4):
            buffer = bytearray(2)
            for _ in range(2):
                self.ours.sendall(b"x")
                self.theirs.sendall(b"1234")
                self.assertEqual((self.ours.recv(2), self.ours.recv_into(buffer), bytes(buffer)), (b"12", 2, b"34"))
            self.theirs.sendall(b"56")
            self.assertEqual(error_of(lambda: self.ours.recv(1)).code, "too_large")
            self.assertEqual(error_of(lambda: self.ours.recv_into(buffer)).code, "too_large")


if __name__ == "__main__":
    unittest.main()
