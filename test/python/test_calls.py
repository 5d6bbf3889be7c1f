"""Parts of calls: errors of answers, batches for SQS, turns of records, and the outputs of a stack."""
import concurrent.futures
import http.client
import io
import json
import pickle
import unittest
import unittest.mock
from xml.etree import ElementTree

from cluster_serving import ServingError, _api, _errors, _many, _sqs, stack
from cluster_serving._access import Access
from cluster_serving._api import Api
from cluster_serving._results import Enqueued
from wkr_serving.client import connect
from wkr_serving.client.deadline import Deadline
from wkr_serving.client.transport import Answer, WKRError

URL = "http://a.example/prod"


def error_of(call):
    try:
        return call()
    except Exception as error:
        return error


def answer(status, body=b"{}", headers=None):
    return Answer(status, "application/json", body if isinstance(body, bytes) else json.dumps(body).encode(), headers or {})


class Errors(unittest.TestCase):
    def of(self, given, path="/p?q"):
        api = Api(URL, Access("none"))
        with unittest.mock.patch.object(api, "_tried", lambda *_: given):
            return error_of(lambda: api.answer("GET", path, Deadline(-1, "u")))

    def test_an_answer_without_a_code_has_that_of_its_status(self):
        for status, code in {400: "bad_request", 401: "unauthorized", 403: "unauthorized", 404: "bad_config", 413: "too_large",
                             429: "rate_limited", 499: "bad_request", 500: "internal", 502: "internal",
                             503: "queue_unavailable", 504: "timeout", 300: "bad_request", 304: "bad_request"}.items():
            for body in (b"", b"[]", {"code": "unheard_of"}, {"code": 1}, {"message": "m"}):
                self.assertEqual(self.of(answer(status, body)).code, code, (status, body))
        self.assertEqual(self.of(answer(404, {"code": "not_found"})).code, "not_found")
        for status in (200, 299):
            self.assertEqual(self.of(answer(status)).status, status)

    def test_an_error_says_the_first_text_and_who_may_call(self):
        for status, body, message in (
                (500, {"error": "a", "message": "b"}, "a"), (500, {"error": 1, "message": "b"}, "b"),
                (500, {}, f"{URL} answered 500"), (500, {"error": "x" * 5000}, "x" * 4096),
                (404, {}, f"{URL} has no /p: is it the url of the API?"), (403, {"error": "own"}, "own"),
                (403, {"message": "Forbidden"}, f"Forbidden ({URL}/p): {_api._WHO_CALLS}"),
                (401, {}, f"{URL} answered 401 ({URL}/p): {_api._WHO_CALLS}")):
            self.assertEqual(self.of(answer(status, body)).message, message)
        for status in (301, 302, 303, 307, 308):
            found = self.of(answer(status, headers={"Location": "x" * 300}) if status != 303 else answer(307))
            shown = "another address" if status == 303 else "x" * 200
            self.assertEqual((found.code, found.message),
                             ("bad_config", f"{URL} redirects to {shown}: is it the url of the API?"))

    def test_when_to_try_again_is_a_number_of_seconds(self):
        for text, seconds in (("1", 1.0), ("0", 0.0), ("0.5", 0.5), ("-1", None), ("inf", None), ("nan", None), ("x", None), (None, None)):
            headers = {} if text is None else {"Retry-After": text}
            self.assertEqual(self.of(answer(429, headers=headers)).retry_after, seconds, text)

    def test_the_network_has_codes_of_its_own(self):
        for code, expected in {"too_large": "too_large", "malformed_answer": "internal", "unreachable": "queue_unavailable",
                               "connection_lost": "queue_unavailable"}.items():
            error = _api._network_error(WKRError(code, "m"))
            self.assertEqual((error.code, error.message), (expected, "m"))
        closed = _api._network_error(WKRError("closed", "m"))
        self.assertEqual((closed.code, closed.message), ("bad_request", "this client was closed"))

    def test_an_error_keeps_what_it_says(self):
        error = ServingError("rate_limited", "m", "u", 2.0)
        for same in (pickle.loads(pickle.dumps(error)), ServingError("rate_limited", "m", None, 2.0).with_uri("u")):
            self.assertEqual((same.code, same.message, same.uri, same.retry_after, str(same)),
                             ("rate_limited", "m", "u", 2.0, "rate_limited: m"))
        self.assertEqual(ServingError("unheard_of", "m").code, "internal")
        with self.assertRaisesRegex(ImportError, r"^this needs nothing_of_that_name: pip install 'cluster-serving\[x\]'$"):
            _errors.extra("nothing_of_that_name.part", "x")
        self.assertIs(_errors.extra("json", "x"), json)

    def test_a_limit_is_seconds_up_to_a_day(self):
        for right in (0.001, 1, 86_400):
            self.assertEqual(_api.check_timeout(right), float(right))
        for wrong in (0, -1, 86_400.1, True, "1", None, float("nan")):
            self.assertEqual(error_of(lambda: _api.check_timeout(wrong)).code, "bad_request", wrong)

    def test_a_cancelled_call_ends_what_it_waits_for_also_later(self):
        for first in ("use", "cancel"):
            call, deadline = _api.Call(), unittest.mock.Mock()
            for step in (first, "cancel" if first == "use" else "use"):
                call.use(deadline) if step == "use" else call.cancel()
            self.assertEqual(deadline.cancel.call_count, 1, first)


class Batches(unittest.TestCase):
    MiB = 1024 * 1024

    def calls(self, *sizes):
        errors = {}
        messages = [_sqs.Message(Enqueued("u", "i" * 6), b"x" * (size - 20)) for size in sizes]
        return [[entry["Id"] for entry in entries] for entries in _sqs._calls(list(enumerate(messages)), errors)], errors

    def test_a_call_has_ten_messages_and_a_MiB(self):
        for sizes, expected in (((), []), ((20,) * 10, [list("0123456789")]), ((20,) * 11, [list("0123456789"), ["10"]]),
                                ((self.MiB,), [["0"]]), ((self.MiB - 20, 20), [["0", "1"]]), ((self.MiB - 20, 21), [["0"], ["1"]]),
                                ((self.MiB // 2,) * 3, [["0", "1"], ["2"]])):
            self.assertEqual(self.calls(*sizes), (expected, {}))
        found, errors = self.calls(20, self.MiB + 1, 20)
        self.assertEqual((found, list(errors)), ([["0", "2"]], ["1"]))
        self.assertEqual((errors["1"].code, errors["1"].message[:70]),
                         ("too_large", "the record is 1048577 bytes as a message, over the limit of 1048576; o"))

    def sent(self, *answers, count=2):
        queue = _sqs.Sqs("http://a.example/0/q", "r", lambda: None)
        left, pauses, sent = list(answers), [], []

        def ask(_method, _path, _deadline, body, _headers):
            sent.append([entry["Id"] for entry in json.loads(body)["Entries"]])
            found = left.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        deadline = Deadline(-1, "u")
        with unittest.mock.patch.object(queue._api, "json", ask), unittest.mock.patch.object(deadline, "pause", pauses.append):
            errors = queue.send([_sqs.Message(Enqueued("u", "i"), b"x")] * count, deadline)
        return sent, pauses, [error and error.code for error in errors], errors

    def test_what_was_not_taken_is_sent_again_three_times_at_most(self):
        good = {"Successful": [{"Id": "0"}, {"Id": "1"}]}
        self.assertEqual(self.sent(good)[:3], ([["0", "1"]], [], [None, None]))
        busy = {"Successful": [{"Id": "0"}], "Failed": [{"Id": "1", "Code": "Busy", "Message": "m", "SenderFault": False}]}
        sent, pauses, codes, errors = self.sent(busy, busy, busy, busy)
        self.assertEqual((sent, pauses, codes), ([["0", "1"], ["1"], ["1"], ["1"]], [0.05, 0.1, 0.2], [None, "queue_unavailable"]))
        self.assertEqual(errors[1].message, "SQS did not take the record (http://a.example/0/q): Busy m")
        ours = {"Successful": [{"Id": "0"}], "Failed": [{"Id": "1", "Code": "Bad", "SenderFault": True}]}
        self.assertEqual(self.sent(ours)[:3], ([["0", "1"]], [], [None, "queue_unavailable"]))
        # On neither list.
        self.assertEqual(self.sent({}, good)[:3], ([["0", "1"], ["0", "1"]], [0.05], [None, None]))
        for nothing in (None, [], {"Successful": 1}, {"Successful": [1, {}, {"Id": 1}]}):
            self.assertEqual(len(self.sent(nothing, good)[0]), 2)

    def test_a_call_that_fails_is_the_error_of_what_it_had_left(self):
        half = {"Successful": [{"Id": "0"}]}
        self.assertEqual(self.sent(half, ServingError("unauthorized", "m"))[2], [None, "unauthorized"])
        codes, errors = self.sent(TimeoutError("late"))[2:]
        self.assertEqual((codes, errors[0].message), (["timeout", "timeout"], "http://a.example/0/q: late"))


class Turns(unittest.TestCase):
    def test_a_batch_is_in_parts_where_a_uri_comes_twice_and_a_turn_waits_for_those_of_its_uris(self):
        turns = _many.Turns()
        batches = [[("a", 1), ("b", 2), ("a", 3), ("c", 4)], [("b", 5)], [("d", 6), 7, (), (1, 2)]]
        found = list(turns.of(batches))
        self.assertEqual([turn.records for turn in found],
                         [[("a", 1), ("b", 2)], [("a", 3), ("c", 4)], [("b", 5)], [("d", 6), 7, (), (1, 2)]])
        self.assertEqual([turn.before for turn in found], [[], [found[0].ended], [found[0].ended], []])

    def test_turns_that_have_ended_are_forgotten_when_there_are_many(self):
        turns = _many.Turns()
        with unittest.mock.patch.object(_many, "_MOST_TURNS", 2):
            first, second, third = (next(turns.parts([(uri, 1)])) for uri in "abc")
            first.end()
            self.assertEqual(list(turns._last), ["a", "b", "c"])
            next(turns.parts([("d", 1)]))
            self.assertEqual(list(turns._last), ["b", "c", "d"])

    def test_a_turn_begins_after_those_before_it_and_ends_also_with_an_error(self):
        before = concurrent.futures.Future()
        turn = _many.Turn([1], [before])
        before.set_result(None)
        self.assertEqual(turn.run(lambda records: records * 2), [1, 1])
        self.assertTrue(turn.ended.done())
        turn.end()
        failing = _many.Turn([1], [])
        self.assertIsInstance(error_of(lambda: failing.run(lambda _: 1 / 0)), ZeroDivisionError)
        self.assertTrue(failing.ended.done())

    def test_a_hundred_errors_are_enough(self):
        tally, read = _many.Tally(), []
        for batch in tally.batches(iter(range(1000)), 33):
            read.append(len(batch))
            tally.add(ServingError("internal", f"m{i}", f"u{i}", 1.5) for i in batch)
        self.assertEqual(read, [33, 33, 33, 33])
        tally.add([Enqueued("v", "i")])
        error = error_of(tally.enqueued_or_raise)
        for same in (error, pickle.loads(pickle.dumps(error))):
            self.assertEqual((same.message, same.uri, same.retry_after, same.code, len(same.errors), same.enqueued),
                             ("132 of 133 records were not enqueued; the first, u0: m0", "u0", 1.5, "internal", 132,
                              [Enqueued("v", "i")]))
        good = _many.Tally()
        self.assertEqual(list(good.batches([1, 2, 3], 2)), [[1, 2], [3]])
        good.add([Enqueued("v", "i")])
        self.assertEqual(good.enqueued_or_raise(), [Enqueued("v", "i")])

    def test_so_many_are_begun_ahead_and_given_in_their_order(self):
        begun, read = [], []

        def items():
            for i in range(10):
                read.append(i)
                yield i

        found = _many.in_order(lambda i: begun.append(i) or i * 2, items(), 2)
        self.assertEqual(next(found), 0)
        self.assertEqual(len(read), 4)
        self.assertEqual(list(found), [2, 4, 6, 8, 10, 12, 14, 16, 18])


class Stacks(unittest.TestCase):
    OUTPUTS = {"HttpApiUrl": "https://a//", "QueueUrl": "q", "BucketName": "b", "JobName": "j", "Auth": "iam"}

    def places(self, outputs, status="CREATE_COMPLETE"):
        members = "".join(f"<member><OutputKey>{key}</OutputKey><OutputValue>{value}</OutputValue></member>"
                          for key, value in outputs.items())
        found = ElementTree.fromstring(f"<m><StackStatus>{status}</StackStatus><Outputs>{members}</Outputs></m>")
        return error_of(lambda: stack._places_of("s", "r", found))

    def test_a_stack_has_all_of_its_outputs_or_says_which_are_missing(self):
        self.assertEqual(self.places(self.OUTPUTS), stack.Places("s", "r", "https://a", "iam", "j", "q", "b"))
        for key in self.OUTPUTS:
            for outputs in ({**self.OUTPUTS, key: ""}, {k: v for k, v in self.OUTPUTS.items() if k != key}):
                error = self.places(outputs)
                self.assertEqual((error.code, error.message.split(":")[0]),
                                 ("bad_config", f"stack s (CREATE_COMPLETE) has no output {key}"))
        two = self.places({"QueueUrl": "q", "JobName": "j"}).message
        self.assertIn("has no output HttpApiUrl, BucketName, Auth: ", two)
        for outputs, status, code in (({}, "CREATE_IN_PROGRESS", "queue_unavailable"), ({}, "ROLLBACK_COMPLETE", "bad_config"),
                                      ({"QueueUrl": "q"}, "UPDATE_IN_PROGRESS", "bad_config"),
                                      (self.OUTPUTS, "DELETE_FAILED", "not_found"), ({}, "DELETE_IN_PROGRESS", "not_found"),
                                      ({**self.OUTPUTS, "Auth": "mtls"}, "CREATE_COMPLETE", "bad_config")):
            self.assertEqual(self.places(outputs, status).code, code, (outputs, status))
        self.assertEqual(self.places(self.OUTPUTS, "UPDATE_IN_PROGRESS").job, "j")

    def test_xml_without_namespaces_and_entities(self):
        self.assertEqual(stack._xml(b'<a xmlns="n"><b>1</b></a>').findtext("b"), "1")
        for none in (b"", b"<a", b"{}", b"<!DOCTYPE a><a/>"):
            self.assertIsNone(stack._xml(none))


class Tunnels(unittest.TestCase):
    """The request to a proxy, and the part of it that matters."""

    def tunnel(self, said, authorization=None):
        sock, deadline = unittest.mock.Mock(), Deadline(-1, "u")
        with unittest.mock.patch.object(connect, "TimedSocket") as timed:

            timed.return_value.makefile = lambda _: io.BufferedReader(io.BytesIO(said))
            found = error_of(lambda: connect._tunnel(sock, "h:1", authorization, deadline))
        return sock.sendall.call_args[0][0].decode(), found

    def test_a_tunnel_is_asked_for_and_refused_with_its_status(self):
        asked, found = self.tunnel(b"HTTP/1.1 200 OK\r\n\r\n")
        self.assertEqual((asked, found), ("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", None))
        asked, found = self.tunnel(b"HTTP/1.1 407 No way\r\n\r\n", "Basic x")
        self.assertEqual(asked, "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\nProxy-Authorization: Basic x\r\n\r\n")
        self.assertEqual((type(found), str(found)), (OSError, "the proxy answered 407 No way"))
        self.assertIsInstance(self.tunnel(b"")[1], http.client.HTTPException)

    def test_an_address_is_resolved_without_a_thread(self):
        self.assertEqual([connect._is_address(host) for host in ("127.0.0.1", "::1", "localhost", "")], [True, True, False, False])
