"""Every call ends: within its time, within its size, and with an error that says what happened."""
import asyncio
import os
import socket
import ssl
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import servers
from cluster_serving import AsyncClient, Client, EnqueueError, ServingError, connect, find_stack
from cluster_serving.compat import InputQueue, OutputQueue

LIMIT = 0.3
# For what ends before its limit, however busy the machine is.
LONG = 600
X = {"x": [1, 2]}

QUEUE = "/123456789012/queue"


def all_of(outcomes):
    """Collects an iterator of either kind; an error instead of a result is raised."""
    def checked(found):
        for outcome in found:
            if outcome.error:
                raise outcome.error
        return found

    async def run():
        return checked([outcome async for outcome in outcomes])

    return run() if hasattr(outcomes, "__aiter__") else checked(list(outcomes))


# Each call of both clients. A method without a case fails a test.
CALLS = {
    "predict": lambda c, limit=LIMIT: c.predict(X, timeout=limit),
    "enqueue": lambda c, limit=LIMIT: c.enqueue("u", X, timeout=limit),
    "enqueue_many": lambda c, limit=LIMIT: c.enqueue_many([("u", X)], timeout=limit),
    "query": lambda c, limit=LIMIT: c.query("u", timeout=limit),
    "query_and_delete": lambda c, limit=LIMIT: c.query_and_delete("u", timeout=limit),
    "wait": lambda c, limit=LIMIT: c.wait("u", timeout=limit),
    "results": lambda c, limit=LIMIT: all_of(c.results(["u"], timeout=limit)),
    "drain": lambda c, limit=LIMIT: all_of(c.drain(timeout=limit)),
    "dequeue": lambda c, limit=LIMIT: c.dequeue(timeout=limit),
    "status": lambda c, limit=LIMIT: c.status("u", timeout=limit),
    "cancel": lambda c, limit=LIMIT: c.cancel("u", timeout=limit),
    "is_ready": lambda c, limit=LIMIT: c.is_ready(timeout=limit),
}
TO_SQS = ("enqueue", "enqueue_many")
# The former client's names, each with the queues that it asks.
QUEUES = {
    (InputQueue, "enqueue"): ("url", "sqs"),
    (InputQueue, "enqueue_tensor"): ("url", "sqs"),
    (InputQueue, "predict"): ("url",),
    (OutputQueue, "query"): ("url",),
    (OutputQueue, "query_and_delete"): ("url",),
    (OutputQueue, "dequeue"): ("url",),
}
# They ask nobody, or only Redis, of which test_compat.py has the cases.
LOCAL = {"close", "data_to_b64", "base64_encode_image", "get_ndarray_from_b64", "db", "read"}
BEHAVIOURS = (servers.silent, servers.half, servers.slow, servers.slow_body)


def call_of_queue(name, queue, limit=LIMIT):
    if name == "predict":
        return queue.predict('{"instances":[]}', timeout=limit)
    given = {"enqueue": {"x": [1, 2]}, "enqueue_tensor": {"data": np.zeros(2)}, "dequeue": {}}
    return getattr(queue, name)(*([] if name == "dequeue" else ["u"]), **given.get(name, {}))


def small(client):
    """The client, of whose answers 64 KiB are read."""
    for api in (client._api, client._sqs and client._sqs._api):
        if api is not None:
            api._http.max_bytes = 2**16
    return client


def calls_of(url, limit=LIMIT):
    """Each call by its name, to a service at `url`."""
    for name, call in CALLS.items():
        yield name, lambda call=call: call(small(Client(url)), limit)
        yield f"async {name}", lambda call=call: in_asyncio(url, lambda client: call(client, limit))
    for name in TO_SQS:
        yield f"{name} to SQS", lambda call=CALLS[name]: call(small(Client(sqs=url + QUEUE)), limit)
        yield f"async {name} to SQS", lambda call=CALLS[name]: in_asyncio(
            None, lambda client: call(client, limit), sqs=url + QUEUE)
    for (kind, name), places in QUEUES.items():
        for place in places:
            def call(kind=kind, name=name, where={place: url + (QUEUE if place == "sqs" else "")}):
                queue = kind(timeout=limit, **where)
                small(queue.client)
                return call_of_queue(name, queue, limit)

            yield f"{kind.__name__}.{name} {place}", call
    yield "find_stack", lambda: find_stack("s", region="eu-west-1", endpoint=url, timeout=limit)
    yield "connect", lambda: connect("s", region="eu-west-1", endpoint=url, timeout=limit)


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")} - LOCAL


def code_of(call):
    try:
        return f"answered {call()!r}"
    except ServingError as error:
        return error.code


def in_asyncio(url, call, **options):
    async def run():
        async with AsyncClient(url, **options) as client:
            small(client._client)
            return await call(client)

    return asyncio.run(run())


class Time(unittest.TestCase):
    def setUp(self):
        os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_REGION="eu-west-1")

    def test_every_method_has_a_case(self):
        self.assertEqual(public(Client), set(CALLS))
        self.assertEqual(public(AsyncClient), set(CALLS))
        self.assertEqual(public(InputQueue) | public(OutputQueue), {name for _, name in QUEUES})

    def ended(self, behaviours, limit):
        """The code with which each call ends where the service behaves so."""
        with ThreadPoolExecutor(150) as pool:
            calls = {}
            for behaviour in behaviours:
                context = servers.raw(behaviour)
                url = context.__enter__()
                self.addCleanup(context.__exit__, None, None, None)
                for name, call in calls_of(url, limit):
                    calls[behaviour.__name__, name] = pool.submit(code_of, call)
            return {name: future.result() for name, future in calls.items()}

    def test_every_call_ends_at_its_limit_whatever_the_service_does(self):
        codes = self.ended(BEHAVIOURS, LIMIT)
        self.assertEqual({name: code for name, code in codes.items() if code != "timeout"}, {})

    def test_every_call_reads_an_endless_answer_to_its_limit_alone(self):
        codes = self.ended((servers.endless, servers.endless_head), LONG)
        expected = {"endless": "too_large", "endless_head": "internal"}
        self.assertEqual({name: code for name, code in codes.items() if code != expected[name[0]]}, {})

    def test_a_large_result_whose_place_does_not_answer(self):
        large = {"uri": "u", "status": "succeeded", "large": {"id": "i"}}
        for behaviour, limit, code in ((servers.silent, LIMIT, "timeout"), (servers.endless, LONG, "too_large")):
            with servers.raw(behaviour) as there:
                def answer(request):
                    if "uri=" in request.path:
                        return 303, large, {"Location": there}
                    return 200, {"results": [large], "more": False}

                with servers.api(answer) as (url, _), ThreadPoolExecutor(10) as pool:
                    calls = {}
                    for name in ("query", "query_and_delete", "wait", "results", "drain"):
                        calls[name] = pool.submit(code_of, lambda c=CALLS[name]: c(small(Client(url)), limit))
                        calls[f"async {name}"] = pool.submit(
                            code_of, lambda c=CALLS[name]: in_asyncio(url, lambda client: c(client, limit)))
                    codes = {name: future.result() for name, future in calls.items()}
                    self.assertEqual(codes, dict.fromkeys(calls, code))

    def test_credentials_that_are_not_found_in_time(self):
        ended = threading.Event()
        self.addCleanup(ended.set)
        for where in ({"url": "http://127.0.0.1:1", "auth": "iam"}, {"sqs": "http://127.0.0.1:1/q"}):
            client = Client(**where, credentials=ended.wait)
            self.assertEqual(code_of(lambda: client.enqueue("u", X, timeout=LIMIT)), "timeout")

    def test_results_give_each_record_the_error_timeout(self):
        with servers.raw(servers.silent) as url:
            outcomes = list(Client(url).results(["a", "b"], timeout=LIMIT))
        self.assertEqual([(each.uri, each.error.code) for each in outcomes], [("a", "timeout"), ("b", "timeout")])

    def test_a_service_that_does_not_read_a_large_request(self):
        with servers.raw(servers.deaf) as url:
            # A larger one is uploaded, which begins with a small request.
            large = {"x": np.zeros(2**20, np.float32)}
            self.assertEqual(code_of(lambda: Client(url).enqueue("u", large, timeout=LIMIT)), "timeout")

    def test_a_name_that_is_not_resolved(self):
        ended = threading.Event()
        self.addCleanup(ended.set)
        resolve = socket.getaddrinfo
        socket.getaddrinfo = lambda *_, **__: ended.wait() and []
        try:
            self.assertEqual(code_of(lambda: Client("http://name.example").query("u", timeout=LIMIT)), "timeout")
        finally:
            socket.getaddrinfo = resolve

    def test_a_handshake_that_does_not_end(self):
        with servers.raw(servers.silent) as url:
            client = Client(url.replace("http:", "https:"))
            self.assertEqual(code_of(lambda: client.query("u", timeout=LIMIT)), "timeout")

    def test_a_cancelled_call_closes_its_connection(self):
        async def run():
            loop = asyncio.get_running_loop()
            asked, ended = asyncio.Event(), asyncio.Event()

            def behaviour(connection):
                connection.recv(65536)
                loop.call_soon_threadsafe(asked.set)
                connection.recv(1)
                loop.call_soon_threadsafe(ended.set)

            with servers.raw(behaviour) as url:
                async with AsyncClient(url) as client:
                    task = asyncio.ensure_future(client.wait("u", timeout=60))
                    await asked.wait()
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                    await ended.wait()

        asyncio.run(run())

    def test_a_call_that_waits_for_a_thread_ends_too(self):
        async def run(url):
            async with AsyncClient(url, max_concurrency=1) as client:
                first = asyncio.ensure_future(client.wait("a", timeout=60))
                # It has the only thread.
                await asyncio.sleep(0)
                with self.assertRaises(ServingError) as raised:
                    await client.query("b", timeout=LIMIT)
                self.assertEqual(raised.exception.code, "timeout")
                self.assertIn("raise max_concurrency (1)", raised.exception.message)
                first.cancel()

        with servers.raw(servers.silent) as url:
            asyncio.run(run(url))

    def test_who_leaves_results_does_not_wait_for_the_rest(self):
        def answer(request):
            if "uri=first" in request.path:
                return 200, {"uri": "first", "status": "succeeded", "outputs": []}
            servers.DONE.wait()
            return 404, {}

        self.addCleanup(servers.DONE.clear)
        self.addCleanup(servers.DONE.set)
        with servers.api(answer) as (url, _):
            for outcome in Client(url).results(["first", "a", "b"], timeout=3600):
                self.assertEqual(outcome.uri, "first")
                break

    def test_a_limit_that_is_none(self):
        for wrong in (0, -1, float("inf"), float("nan"), "1", True):
            with self.assertRaises(ServingError) as raised:
                Client("http://127.0.0.1:1").query("u", timeout=wrong)
            self.assertEqual(raised.exception.code, "bad_request")


class Size(unittest.TestCase):
    def test_a_length_over_the_limit_is_not_read(self):
        def announces(connection):
            connection.recv(65536)
            connection.sendall(servers.HEAD + b"Content-Length: 99999999999\r\n\r\n")
            servers.silent(connection)

        with servers.raw(announces) as url:
            self.assertEqual(code_of(lambda: Client(url, timeout=LONG).query("u")), "too_large")


class Endless(unittest.TestCase):
    def test_a_service_that_always_has_more_results_does_not_hold_dequeue(self):
        page = {"results": [{"uri": "u", "status": "succeeded", "outputs": []}], "more": True}
        with servers.api(lambda request: (200, page)) as (url, _):
            for call in (lambda: list(Client(url).dequeue(timeout=LIMIT)),
                         lambda: list(in_asyncio(url, lambda client: client.dequeue(timeout=LIMIT)))):
                # On a busy machine, the time may be up before the first page.
                self.assertIn(code_of(call), ("answered ['u']", "timeout"))


class Lost(unittest.TestCase):
    def test_a_port_without_a_service(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        self.assertEqual(code_of(lambda: Client(f"http://127.0.0.1:{port}", timeout=LONG).query("u")), "queue_unavailable")

    def test_a_service_that_leaves(self):
        with servers.raw(servers.gone) as url:
            self.assertEqual({name: code_of(lambda: call(Client(url), LONG)) for name, call in CALLS.items()},
                             {**dict.fromkeys(CALLS, "queue_unavailable"), "is_ready": "answered False"})

    def test_enqueue_many_names_what_failed_and_stops_reading(self):
        read = []

        def records():
            for i in range(1000):
                read.append(i)
                yield f"u{i}", X

        def answer(request):
            return 413, {"error": "large", "code": "too_large"}

        with servers.api(answer) as (url, seen):
            with self.assertRaises(EnqueueError) as raised:
                Client(url, timeout=LONG).enqueue_many(records())
        self.assertEqual(raised.exception.errors[0].uri, "u0")
        self.assertEqual(raised.exception.code, "too_large")
        self.assertLess(len(read), 200)
        self.assertEqual(len(seen), len(raised.exception.errors))

    def test_a_closed_client(self):
        client = Client("http://127.0.0.1:1")
        client.close()
        self.assertEqual(code_of(lambda: client.query("u")), "bad_request")


class Tls(unittest.TestCase):
    def setUp(self):
        context = servers.certificate()
        made = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        if made is None:
            self.skipTest("needs the openssl command")
        self.path, self.context = made

    def asks(self, url, **options):
        with Client(url, timeout=LONG, **options) as client:
            return code_of(lambda: client.status("u"))

    def test_the_certificate_is_checked_against_the_context_or_SSL_CERT_FILE(self):
        with servers.api(lambda request: (200, {"status": "queued"}), self.context) as (url, _):
            self.assertEqual(self.asks(url), "queue_unavailable")
            self.assertEqual(self.asks(url, ssl_context=ssl.create_default_context(cafile=self.path)), "answered 'queued'")
            os.environ["SSL_CERT_FILE"] = self.path
            self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
            self.assertEqual(self.asks(url), "answered 'queued'")

    def test_https_goes_through_HTTPS_PROXY_unless_NO_PROXY_has_the_host(self):
        asked = []

        def proxy(connection):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            asked.append(head.decode())
            host, _, port = head.split()[1].decode().partition(":")
            if host != "localhost":
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection((host, int(port))) as inside:
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=copy, args=(inside, connection), daemon=True)
                back.start()
                copy(connection, inside)

        def copy(source, target):
            try:
                while True:
                    data = source.recv(65536)
                    if not data:
                        break
                    target.sendall(data)
            except OSError:
                pass

        for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
            os.environ.pop(name, None)
        options = {"ssl_context": ssl.create_default_context(cafile=self.path)}
        with servers.api(lambda request: (200, {"status": "queued"}), self.context) as (url, seen), servers.raw(proxy) as via:
            os.environ["HTTPS_PROXY"] = via.replace("http://", "http://me:p%40ss@")
            self.addCleanup(os.environ.pop, "HTTPS_PROXY")
            self.assertEqual(self.asks(url, **options), "answered 'queued'")
            self.assertRegex(asked[0], r"^CONNECT localhost:\d+ HTTP/1.1\r\n(?s:.*)Proxy-Authorization: Basic bWU6cEBzcw==")
            self.assertNotIn("proxy-authorization", seen[0].headers)
            self.assertEqual(self.asks("https://other.example", **options), "queue_unavailable")
            self.addCleanup(os.environ.pop, "NO_PROXY")
            for excepted in ("localhost", url[len("https://"):]):
                os.environ["NO_PROXY"] = excepted
                self.assertEqual(self.asks(url, **options), "answered 'queued'")
            self.assertEqual(len(asked), 1 + 3)
        with servers.raw(servers.silent) as via:
            os.environ["HTTPS_PROXY"], os.environ["NO_PROXY"] = via, ""
            self.assertEqual(code_of(lambda: Client("https://a.example").query("u", timeout=LIMIT)), "timeout")


if __name__ == "__main__":
    unittest.main()
