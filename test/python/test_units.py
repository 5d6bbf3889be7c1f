"""The parts of wkr_serving, without a service."""
import argparse
import http.client
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy

from wkr_serving._protocol import frames, launch, process, values
from wkr_serving.client import client, connect, transport
from wkr_serving.client.deadline import Deadline, shut
from wkr_serving.server import WKRHardWorker, WKROnnxWorker

LONG = 600_000


def error_of(call):
    try:
        return call()
    except Exception as error:
        return error


def answer(status, body=b"{}"):
    return transport.Answer(status, "application/json", body, None)


class Callers(unittest.TestCase):
    def test_a_token_has_16_to_512_characters_of_a_header(self):
        os.environ.pop("WKR_TOKEN", None)
        for right in ("a" * 16, "a" * 512, "aZ09-._~+/aZ09-._==", None):
            self.assertEqual(client._bearer(right), right)
        for wrong in ("a" * 15, "a" * 513, "a" * 16 + "\n", "a" * 16 + "é", "=" * 16, "a" * 15 + "=a", "a b" * 9):
            self.assertRegex(str(error_of(lambda: client._bearer(wrong))), "^token: expected 16 to 512")
        with unittest.mock.patch.dict(os.environ, WKR_TOKEN="b" * 16):
            self.assertEqual([client._bearer(token) for token in (None, "", "a" * 16)], ["b" * 16, "b" * 16, "a" * 16])

    def test_an_identity_is_a_name_or_made(self):
        for right, name in (("a" * 64, "a" * 64), (b"aZ.9_-", "aZ.9_-"), (7, "7")):
            self.assertEqual(client._identity(right), name)
        self.assertNotEqual(client._identity(None), client._identity(None))
        for wrong in ("", "a" * 65, "a b", "a\n", "é", b"\xff"):
            self.assertRegex(str(error_of(lambda: client._identity(wrong))), "^identity: expected 1 to 64")

    def test_ids_are_counted_or_given_and_sort_as_numbers(self):
        session = client._Session("http://localhost", None)
        found = [client._next_id(session, given) for given in (None, "x" * 54, None, 0)]
        self.assertEqual(found, ["1", "x" * 54, "3", "0"])
        for wrong in ("", "x" * 55, "a/b", "1\n"):
            self.assertRegex(str(error_of(lambda: client._next_id(session, wrong))), "^target_request_id: expected 1 to 54")
        responses = [client.Response(each, None) for each in ("b", "10", "9", "a", "٣", "²", "1")]
        self.assertEqual([each.id for each in sorted(responses, key=client._number_of)], ["1", "9", "10", "a", "b", "²", "٣"])

    def test_the_addresses_of_all_interfaces_are_this_machine(self):
        hosts = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "*": "127.0.0.1", "localhost": "localhost", "fe80::1": "[fe80::1]"}
        self.assertEqual({ip: client._host(ip) for ip in hosts}, hosts)

    def test_settings_out_of_their_range_are_refused(self):
        for wrong, kind in (({"protocol": "pickle"}, AttributeError), ({"timeout": 0}, ValueError), ({"timeout": -2}, ValueError),
                            ({"timeout": True}, ValueError), ({"timeout": "1"}, ValueError), ({"timeout": None}, ValueError)):
            self.assertIsInstance(error_of(lambda: client.WKRClient(ignore_all_checks=True, **wrong)), kind, wrong)
        for protocol, timeout in (("obj", -1), ("npy", 0.5), ("numpy", 1)):
            made = client.WKRClient(protocol=protocol, timeout=timeout, ignore_all_checks=True)
            self.assertEqual((made.protocol, made.timeout), ("obj" if protocol == "obj" else "npy", timeout))
        for wrong in ({"max_concurrency": 0}, {"max_concurrency": 1001}, {"retry": -1}, {"retry_gap": -0.1}):
            self.assertIsInstance(error_of(lambda: client.ConcurrentWKRClient(ignore_all_checks=True, **wrong)), ValueError)
        for most in (1, 1000):
            made = client.ConcurrentWKRClient(most, ignore_all_checks=True)
            self.assertEqual((made.max_concurrency, made.retry, made.retry_gap), (most, 0, 0.05))

    def test_the_defaults_are_those_of_the_former_client(self):
        status = client.WKRClient(ignore_all_checks=True).status
        self.assertEqual((status["server_ip"], status["port"], status["port_out"], status["timeout"]), ("localhost", 5555, 5556, 900000))
        self.assertEqual((status["num_request"], status["num_pending_request"], status["pending_request"]), (0, 0, set()))


class Frames(unittest.TestCase):
    def test_an_item_has_32_mib_with_its_frame(self):
        made = client.WKRClient(ignore_all_checks=True, identity="i")
        around = len(made._frame(b"", "m"))
        # The length of the block has so many digits more.
        room = transport.MAX_BYTES - around - len(str(transport.MAX_BYTES)) + 1
        self.assertEqual(len(made._frame(bytes(room), "m")), transport.MAX_BYTES)
        error = error_of(lambda: made._frame(bytes(room + 1), "m"))
        self.assertEqual((error.code, error.status, str(error)),
                         ("too_large", 413, "too_large: data: 33554433 bytes are over the limit of 33554432"))

    def test_the_protocol_npy_sends_arrays_alone(self):
        made = client.WKRClient(protocol="npy", ignore_all_checks=True)
        self.assertEqual(str(error_of(lambda: made._frame([1], "m"))), "data: the protocol npy sends an ndarray, not a list")
        self.assertGreater(len(made._frame(numpy.zeros(1), "m")), 8)


class Answers(unittest.TestCase):
    def test_another_status_of_success_is_no_success(self):
        for status, wanted, code in ((200, 202, "malformed_answer"), (202, 200, "malformed_answer"), (299, 200, "malformed_answer"),
                                     (204, 200, "malformed_answer"), (199, 200, "bad_request"), (300, 200, "bad_request")):
            error = error_of(lambda: client._accepted(answer(status), wanted))
            self.assertEqual(error.code, code, status)
        for status in (200, 202):
            self.assertEqual(client._accepted(answer(status), status).status, status)

    def test_an_error_has_the_code_and_the_text_of_the_service_or_those_of_its_status(self):
        said = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 413: "too_large", 415: "unsupported_media_type",
                422: "model_failed", 429: "rate_limited", 503: "model_unavailable", 504: "timeout", 400: "bad_request",
                499: "bad_request", 500: "internal", 502: "internal"}
        for status, code in said.items():
            for body in (b"", b"{}", b"[]", b'{"code":1,"error_message":2}'):
                error = transport.error_of(answer(status, body))
                self.assertEqual((error.code, error.message, error.status), (code, f"the service answered {status}", status))
        for body in (b'{"code":"own","error_message":"why"}', b'{"code":"own","error":"why"}'):
            error = transport.error_of(answer(500, body))
            self.assertEqual((error.code, error.message, str(error)), ("own", "why", "own: why"))
        long = transport.error_of(answer(500, b'{"code":"%s","error":"%s"}' % (b"c" * 65, b"m" * 4097)))
        self.assertEqual((len(long.code), len(long.message)), (64, 4096))

    def test_a_body_is_read_to_its_length_or_its_end_and_up_to_a_limit(self):
        def read(pieces, length, most=5):
            left = list(pieces)
            response = unittest.mock.Mock(length=length, read=lambda _: left.pop(0) if left else b"")
            return error_of(lambda: transport._read(response, most))

        for pieces, length in (((b"ab", b"cde"), 5), ((b"ab", b"cde"), None), ((), 0), ((), None)):
            self.assertEqual(read(pieces, length), b"".join(pieces))
        for pieces, length in (((b"abc", b"def"), None), ((b"abcdef",), None), ((), 6)):
            self.assertEqual((read(pieces, length).code, read(pieces, length).message),
                             ("too_large", "the answer is over the limit of 5 bytes"))
        short = read((b"ab",), 5)
        self.assertIsInstance(short, http.client.IncompleteRead)
        self.assertEqual((short.partial, short.expected), (b"", 3))

    def test_outcomes(self):
        reader = unittest.mock.Mock(read=lambda value: value * 2)
        found = client._read_outcome("i", {"value": 4}, reader)
        self.assertEqual((found.id, found.value, found.error), ("i", 8, None))
        found = client._read_outcome("i", {"error": {"code": "c", "message": "m"}}, reader)
        self.assertEqual((found.value, found.error.code, found.error.message), (None, "c", "m"))
        unreadable = unittest.mock.Mock(read=unittest.mock.Mock(side_effect=transport.WKRError("bad_input", "an image")))
        self.assertEqual(client._read_outcome("i", {"value": 4}, unreadable).error.code, "bad_input")
        for wrong in (None, [], {}, {"value": 1, "error": {}}, {"error": {"code": 1, "message": "m"}}, {"error": {"code": "c"}},
                      {"error": "m"}, {"other": 1}):
            self.assertIsInstance(error_of(lambda: client._read_outcome("i", wrong, reader)), frames.ProtocolError, wrong)


class Addresses(unittest.TestCase):
    def test_an_address_is_read_once(self):
        for url, host, port, prefix in (("http://a", "a", 80, ""), ("https://a/", "a", 443, ""), ("http://a:443/b/", "a:443", 443, "/b"),
                                        ("https://a:80", "a:80", 80, ""), ("http://a:80", "a", 80, ""), ("https://a:443", "a", 443, ""),
                                        ("http://[::1]:7", "[::1]:7", 7, ""), ("https://[::1]", "[::1]", 443, "")):
            http = transport.Http(url, "t" * 16)
            self.assertEqual((http.host, http._port, http._prefix, http.url), (host, port, prefix, url.rstrip("/")))
            self.assertEqual(http._headers["Host"], host)
            self.assertEqual(http._headers["Authorization"], "Bearer " + "t" * 16)
        self.assertNotIn("Authorization", transport.Http("http://a", None)._headers)
        for wrong in ("a", "ftp://a", "http://", "http://me@a", "http://a?b=c"):
            self.assertRegex(str(error_of(lambda: transport.Http(wrong, None))), "^url: expected http://host:port")

    def test_only_https_goes_through_a_proxy(self):
        proxied = {(url, proxy): transport.Http(url, None, proxy=proxy)._proxy is not None
                   for url in ("http://a", "https://a") for proxy in (None, "", "p:1")}
        self.assertEqual([where for where, found in proxied.items() if found], [("https://a", "p:1")])

    def test_the_address_of_a_proxy(self):
        self.assertEqual(connect.proxy_of("p:1"), (("p", 1), None))
        self.assertEqual(connect.proxy_of("http://p"), (("p", 80), None))
        self.assertEqual(connect.proxy_of("http://me:p%40ss@p:2"), (("p", 2), "Basic bWU6cEBzcw=="))
        self.assertEqual(connect.proxy_of("http://me@p:2"), (("p", 2), "Basic bWU6"))
        for wrong in ("https://p:1", "socks5://p:1", "http://", "http://:1"):
            self.assertRegex(str(error_of(lambda: connect.proxy_of(wrong))), "^proxy: expected http://host:port")


class Deadlines(unittest.TestCase):
    def test_what_is_left_is_seconds_and_none_without_an_end(self):
        self.assertIsNone(Deadline(-1, "u").remaining())
        self.assertFalse(Deadline(-1, "u").is_over)
        left = Deadline(LONG, "u").remaining()
        self.assertTrue(590 < left <= 600, left)
        begun = Deadline(LONG, "u", time.monotonic() - 100).remaining()
        self.assertTrue(490 < begun <= 500, begun)

    def test_its_end_is_an_error_with_the_address_and_the_time(self):
        over = Deadline(0, "http://a")
        self.assertTrue(over.is_over)
        self.assertRegex(str(error_of(over.remaining)), "^no answer from http://a within 0 ms: ")
        cancelled = Deadline(-1, "http://a")
        cancelled.cancel()
        self.assertTrue(cancelled.is_over)
        self.assertEqual(str(error_of(cancelled.remaining)), "the call of http://a was cancelled")

    def test_a_pause_is_not_beyond_its_end(self):
        with unittest.mock.patch("time.sleep") as sleep:
            Deadline(-1, "u").pause(7)
            Deadline(LONG, "u").pause(7)
            Deadline(LONG, "u").pause(700)
            self.assertIsInstance(error_of(lambda: Deadline(0, "u").pause(7)), TimeoutError)
        seconds = [call.args[0] for call in sleep.call_args_list]
        self.assertEqual(seconds[:2], [7, 7])
        self.assertTrue(590 < seconds[2] <= 600 and len(seconds) == 3, seconds)

    def test_what_runs_in_a_thread_gives_its_result_its_error_or_the_end(self):
        self.assertEqual(Deadline(LONG, "u").run(lambda: 7), 7)
        self.assertEqual(Deadline(-1, "u").run(lambda: None), None)
        self.assertIsInstance(error_of(lambda: Deadline(LONG, "u").run(lambda: {}["x"])), KeyError)
        ended = threading.Event()
        self.addCleanup(ended.set)
        self.assertIsInstance(error_of(lambda: Deadline(1, "u").run(ended.wait)), TimeoutError)

    def test_a_cancelled_call_ends_the_socket_that_it_watches_last(self):
        first, last = socket.socketpair(), socket.socketpair()
        for sock in (*first, *last):
            self.addCleanup(sock.close)
        deadline = Deadline(LONG, "u")
        deadline.watch(first[0])
        self.assertTrue(590 < first[0].gettimeout() <= 600)
        deadline.watch(last[0])
        deadline.cancel()
        self.assertEqual(last[1].recv(1), b"")
        first[1].setblocking(False)
        self.assertIsInstance(error_of(lambda: first[1].recv(1)), BlockingIOError)
        last[0].close()
        shut(last[0])


class Kept(unittest.TestCase):
    """Of connections that are kept, without one that is opened."""

    def connection(self):
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        return unittest.mock.Mock(sock=ours), theirs

    def test_the_last_one_is_taken_unless_it_is_old_or_was_closed(self):
        http = transport.Http("http://a", None)
        (older, _), (newer, _), (ended, far) = self.connection(), self.connection(), self.connection()
        for each in (older, newer, ended):
            http._give(each, True)
        far.close()
        self.assertIs(http._kept(), newer)
        ended.close.assert_called_once()
        with unittest.mock.patch("time.monotonic", lambda now=time.monotonic(): now + 5):
            self.assertIsNone(http._kept())
        older.close.assert_called_once()
        newer.close.assert_not_called()

    def test_sixteen_are_kept_and_none_that_ends_or_of_a_closed_client(self):
        http = transport.Http("http://a", None)
        given = [self.connection()[0] for _ in range(17)]
        for each in given:
            http._give(each, True)
        self.assertEqual([each.close.called for each in given], [False] * 16 + [True])
        http.close()
        self.assertTrue(all(each.close.called for each in given))
        late = self.connection()[0]
        http._give(late, True)
        late.close.assert_called_once()
        for is_kept, sock in ((False, True), (True, False)):
            other = transport.Http("http://a", None)
            each = self.connection()[0] if sock else unittest.mock.Mock(sock=None)
            other._give(each, is_kept)
            each.close.assert_called_once()
            self.assertIsNone(other._kept())

    def test_a_closed_client_ends_what_waits_and_begins_nothing(self):
        http = transport.Http("http://a", None)
        busy, far = self.connection()
        http._busy.add(busy)
        http.close()
        self.assertEqual(far.recv(1), b"")
        error = error_of(lambda: http.request("GET", "/", Deadline(LONG, "a")))
        self.assertEqual(error.code, "closed")

    def test_a_read_that_lost_its_connection_is_repeated_once_and_nothing_else(self):
        for method, again, code, attempts in (("GET", True, "connection_lost", 2), ("GET", False, "connection_lost", 1),
                                              ("POST", True, "connection_lost", 1), ("GET", True, "unreachable", 1)):
            http = transport.Http("http://a", None)
            lost = unittest.mock.Mock(side_effect=transport.WKRError(code, "no"))
            with unittest.mock.patch.object(http, "_exchange", lost):
                error = error_of(lambda: http.request(method, "/", Deadline(LONG, "a"), again=again))
            self.assertEqual((error.code, lost.call_count), (code, attempts))


class Values(unittest.TestCase):
    def nested(self, wrap, depth):
        value = 1
        for _ in range(depth):
            value = wrap(value)
        return value

    def test_values_nest_64_levels_deep(self):
        for wrap in (lambda value: [value], lambda value: {"a": value}, lambda value: (value,), lambda value: {values.TAG: value}):
            deep = self.nested(wrap, values.DEPTH)
            writer = values.ValueWriter()
            wire = writer.write(deep, "x")
            self.assertEqual(values.ValueReader(writer.blocks).read(wire), deep)
            error = error_of(lambda: values.ValueWriter().write(wrap(deep), "x"))
            self.assertIsInstance(error, TypeError)
            self.assertRegex(str(error), r"^x.*: is nested deeper than 64 levels$")
        for wrap in (lambda value: [value], lambda value: {"a": value}, lambda value: {values.TAG: "tuple", "items": [value]},
                     lambda value: {values.TAG: "dict", "items": [["a", value]]}):
            values.ValueReader([]).read(self.nested(wrap, 64))
            self.assertIsInstance(error_of(lambda: values.ValueReader([]).read(self.nested(wrap, 65))), frames.ProtocolError)
        empty = self.nested(lambda value: [value], 63)
        self.assertIsInstance(error_of(lambda: values.ValueWriter().write([[empty]], "x")), TypeError)

    def test_what_is_long_goes_to_a_block_and_the_same_comes_back(self):
        for value, blocks in (("x" * 1000, 0), ("x" * 2000, 1), (["x" * 100] * 10, 0), (["x" * 100] * 20, 1), ({"x" * 2000: 1}, 1)):
            writer = values.ValueWriter()
            wire = writer.write(value, "x")
            self.assertEqual(len(writer.blocks), blocks)
            self.assertEqual(values.ValueReader(writer.blocks).read(wire), value)


class Launches(unittest.TestCase):
    def made(self, module, file):
        made = type("Worker", (), {"__module__": module})
        patched = unittest.mock.patch.dict(sys.modules, {module: unittest.mock.Mock(__file__=file)})
        patched.start()
        self.addCleanup(patched.stop)
        return made

    def test_a_class_is_found_by_its_module_from_the_folder_of_the_outermost_package(self):
        for module, file, expected in (("a", "/p/a.py", ("a", "/p")), ("a.b.c", "/p/a/b/c.py", ("a.b.c", "/p")),
                                       ("__main__", "/p/q/run.it.py", ("run.it", "/p/q"))):
            self.assertEqual(launch._module_of(self.made(module, file)), expected)
        launched = launch.Launched(self.made("__main__", "/p/q/run.py"), ["-port", 1])
        self.assertEqual((launched._command, launched._directory), (["", "run.Worker", "-port", "1"], "/p/q"))

    def test_flags_are_words_or_come_of_a_dict_or_a_namespace(self):
        flags = {"port": 7, "cpu": True, "watch": False, "cors": None, "device_map": [0, 1], "zero": 0, "empty": "", "list": ["a", 1.5]}
        words = ["-port", "7", "-cpu", "-device_map", "0 1", "-zero", "0", "-empty", "", "-list", "['a', 1.5]"]
        self.assertEqual(launch._words(flags), words)
        self.assertEqual(launch._words(argparse.Namespace(**flags)), words)
        self.assertEqual(launch._words((1, "a")), ["1", "a"])

    def test_a_service_that_is_not_there_is_an_error(self):
        launched = launch.Launched(self.made("a", "/a.py"), [])
        launched._command, launched._directory = ["/no/such/command"], "/"
        launched._command_name = "no-such-command"
        self.assertEqual(str(error_of(launched.join)), "start() was not called")
        launched.close()
        self.assertEqual(str(error_of(launched.start)), "no-such-command is not on the PATH; it comes with the npm package")

    def test_a_service_is_asked_to_end_and_ended_when_it_does_not(self):
        expired = launch.subprocess.TimeoutExpired("c", 15)
        for waited, killed in (([0], False), ([expired, 0], True)):
            launched = launch.Launched(self.made("a", "/a.py"), [])
            running = launched._process = unittest.mock.Mock()
            running.poll.return_value, running.wait.side_effect = None, waited
            launched.close()
            running.send_signal.assert_called_once_with(signal.SIGTERM)
            self.assertEqual((running.wait.call_args_list[0].args, running.kill.called), ((15,), killed))
            running.poll.return_value = 0
            launched.close()
            running.send_signal.assert_called_once()


class Workers(unittest.TestCase):
    def setUp(self):
        self.addCleanup(os.chdir, os.getcwd())
        self.addCleanup(setattr, sys, "path", list(sys.path))
        self.folder = os.path.realpath(self.made())

    def made(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def load(self, name):
        for module in ("units_worker", "units_other", "units_package", "units_package.inner"):
            sys.modules.pop(module, None)
        return process.load_class(name, self.folder, WKRHardWorker)

    def test_a_class_of_the_directory_comes_before_others_of_its_name(self):
        other = self.made()
        with open(os.path.join(other, "units_worker.py"), "w", encoding="utf-8") as file:
            file.write("class Worker:\n    where = 'other'\n")
        sys.path.insert(0, other)
        self.write("units_worker.py", "import units_other\nclass Worker:\n    where = units_other.where\nvalue = 1\n")
        self.write("units_other.py", "where = 'here'\n")
        self.write(os.path.join("units_package", "inner.py"), "class Worker:\n    where = 'inner'\n")
        found = self.load("units_worker.Worker")
        self.assertEqual((found.where, found.__name__, issubclass(found, WKRHardWorker)), ("here", "Worker", True))
        self.assertEqual(os.path.realpath(os.getcwd()), self.folder)
        self.assertEqual(self.load("units_package.inner.Worker").where, "inner")
        self.assertIsInstance(error_of(lambda: self.load("units_worker.value")), TypeError)
        self.assertIsInstance(error_of(lambda: self.load("units_worker.Other")), AttributeError)
        for wrong in ("Worker", "units_worker.", ".Worker", "units worker.Worker", "../units_worker.Worker"):
            self.assertRegex(str(error_of(lambda: self.load(wrong))), "is no module and class")
        for end in (".ts", ".mts", ".mjs", ".js"):
            self.write("units_worker" + end, "")
            self.assertIn(f"units_worker.py and {self.folder}/units_worker{end} exist", str(error_of(lambda: self.load("units_worker.Worker"))))
            os.remove(os.path.join(self.folder, "units_worker" + end))

    def test_a_worker_that_is_a_subclass_stays_what_it_is(self):
        self.write("units_worker.py", "from wkr_serving.server import WKRHardWorker\nclass Worker(WKRHardWorker):\n    pass\n")
        self.assertEqual(self.load("units_worker.Worker").__bases__, (WKRHardWorker,))

    def test_an_onnx_worker_takes_arrays_by_name_or_the_only_one(self):
        def model(inputs, outputs, given):
            named = lambda names: [unittest.mock.Mock(**{"name": None}) for _ in names]  # noqa: E731
            made = unittest.mock.Mock()
            made.get_inputs.return_value, made.get_outputs.return_value = named(inputs), named(outputs)
            for names, mocks in ((inputs, made.get_inputs()), (outputs, made.get_outputs())):
                for name, each in zip(names, mocks):
                    each.name = name
            made.run.return_value = given
            return made

        worker = WKROnnxWorker()
        one = model(["x"], ["y"], ["answers"])
        self.assertEqual(worker.predict(one, numpy.zeros((2, 3))), "answers")
        self.assertEqual([(wanted, sorted(fed), fed["x"].shape) for (wanted, fed), _ in one.run.call_args_list], [(None, ["x"], (2, 3))])
        worker.predict(one, [numpy.zeros(3), numpy.ones(3)])
        self.assertEqual(one.run.call_args[0][1]["x"].tolist(), [[0, 0, 0], [1, 1, 1]])
        two = model(["a", "b"], ["y", "z"], [[1, 2], [3, 4]])
        self.assertEqual(worker.predict(two, {"a": 5, "b": 6}), [{"y": 1, "z": 3}, {"y": 2, "z": 4}])
        self.assertEqual(two.run.call_args[0], (None, {"a": 5, "b": 6}))
        for wrong in (numpy.zeros(2), [1]):
            self.assertRegex(str(error_of(lambda: worker.predict(two, wrong))), r"a dict with an array for each of the inputs \['a', 'b'\]")
        uneven = model(["x"], ["y", "z"], [[1, 2], [3]])
        self.assertEqual(str(error_of(lambda: worker.predict(uneven, {"x": 1}))), "the outputs have [2, 1] rows")

    def test_a_worker_stacks_arrays_and_hands_other_values_on(self):
        worker = WKRHardWorker()
        self.assertEqual(worker.batching([1, "a"]), [1, "a"])
        worker.transfer_proto = "npy"
        self.assertEqual(worker.batching([numpy.zeros(2), numpy.ones(2)]).tolist(), [[0, 0], [1, 1]])
        self.assertEqual([worker.get_preprocess(None)(7), worker.get_postprocess(None)(8)], [7, 8])
        for call in (lambda: worker.get_model(None, "", "", ""), lambda: worker.predict(None, None)):
            self.assertIsInstance(error_of(call), NotImplementedError)


class Signals(unittest.TestCase):
    def setUp(self):
        for number in process._SIGNALS:
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def test_a_process_ignores_them_and_its_subprocesses_do_not(self):
        process.ignore_signals()
        for number in process._SIGNALS:
            signal.raise_signal(number)
            self.assertNotIn(signal.getsignal(number), (signal.SIG_IGN, signal.SIG_DFL))

    def test_a_fork_of_a_worker_has_no_pipes_and_ends_at_a_signal(self):
        process.ignore_signals()
        pipe = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, process._SIGNALS)
        self.addCleanup(signal.pthread_sigmask, signal.SIG_UNBLOCK, process._SIGNALS)
        process._forget(*pipe)
        for descriptor in pipe:
            self.assertIsInstance(error_of(lambda: os.fstat(descriptor)), OSError)
        self.assertEqual(signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(process._SIGNALS), set())
        self.assertEqual({signal.getsignal(number) for number in process._SIGNALS}, {signal.SIG_DFL})


if __name__ == "__main__":
    unittest.main()
