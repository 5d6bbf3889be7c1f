"""The client for asyncio: the calls of `Client` as coroutines.

Each call runs in a thread of a pool of its own, so that there is one implementation of limits, retries and signatures.
A call that is cancelled, or whose time is up, closes its connection, and its thread is free again.
"""
from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import (Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Deque, Dict, Iterable, List, Mapping,
                    Optional, Sequence, Tuple, TypeVar, Union, overload)

from wkr_serving.client.deadline import Deadline

from ._api import CALL, Call, check_timeout
from ._errors import ServingError, bad_request
from ._inputs import Input
from ._many import Record, Tally, Turn, Turns
from ._results import Enqueued, Outcome, Result
from .client import Client, Uri, named

_GRACE_SECONDS = 0.05

_T = TypeVar("_T")
_A = TypeVar("_A")

_Records = Union[Iterable[Union[Record, Tuple[str, Mapping[str, Input]]]],
                 AsyncIterable[Union[Record, Tuple[str, Mapping[str, Input]]]]]


class AsyncClient:
    """As `Client`, which describes the options and the calls.

    `max_concurrency` calls run at once; others wait, and that counts towards their time limit.
    """

    def __init__(self, url: Optional[str] = None, *, max_concurrency: int = 32, timeout: float = 30.0,
                 **options: Any) -> None:
        if not isinstance(max_concurrency, int) or not 1 <= max_concurrency <= 1000:
            raise bad_request(f"max_concurrency: expected 1 to 1000, got {max_concurrency!r:.40}")
        self._client = Client(url, timeout=timeout, **options)
        self._timeout = timeout
        self._width = max_concurrency
        self._pool = ThreadPoolExecutor(max_concurrency, thread_name_prefix="cluster-serving")

    @overload
    async def predict(self, inputs: Mapping[str, Input], *, model: Optional[str] = None, canary_key: Optional[str] = None,
                      timeout: Optional[float] = None) -> Result: ...

    @overload
    async def predict(self, inputs: Sequence[Mapping[str, Input]], *, model: Optional[str] = None,
                      canary_key: Optional[str] = None,
                      timeout: Optional[float] = None) -> List[Result]: ...

    async def predict(self, inputs: Any, *, model: Optional[str] = None, canary_key: Optional[str] = None,
                      timeout: Optional[float] = None) -> Any:
        """As `Client.predict`."""
        return await self._run(timeout, lambda: self._client.predict(
            inputs, model=model, canary_key=canary_key, timeout=timeout))

    async def enqueue(self, uri: str, inputs: Mapping[str, Input], *, identity: Optional[str] = None,
                      notify: Optional[str] = None, task_token: Optional[str] = None, canary_key: Optional[str] = None,
                      expires_after: Optional[int] = None, delay_seconds: Optional[int] = None,
                      priority: Optional[str] = None, model: Optional[str] = None,
                      timeout: Optional[float] = None) -> Enqueued:
        """As `Client.enqueue`."""
        return await self._run(timeout, lambda: self._client.enqueue(
            uri, inputs, identity=identity, notify=notify, task_token=task_token, canary_key=canary_key,
            expires_after=expires_after, delay_seconds=delay_seconds, priority=priority, model=model,
            timeout=timeout))

    async def enqueue_many(self, records: _Records, *, timeout: Optional[float] = None) -> List[Enqueued]:
        """As `Client.enqueue_many`; the iterable may be asynchronous."""
        tally = Tally()
        turns = Turns()

        async def batches() -> AsyncIterator[Turn]:
            batch: List[Any] = []
            async for record in _each(records):
                batch.append(record)
                if len(batch) == self._client._per_call:
                    for turn in turns.parts(batch):
                        yield turn
                    batch = []
                    if tally.is_enough:
                        return
            for turn in turns.parts(batch) if batch else ():
                yield turn

        async def send(turn: Turn) -> List[Union[Enqueued, ServingError]]:
            some = turn.records
            try:
                for each in turn.before:
                    await asyncio.wrap_future(each)
                return await self._run(timeout, lambda: self._client._enqueue_all(some, timeout))
            except ServingError as error:
                return [error.with_uri(each[0]) if isinstance(each, tuple) and each else error for each in some]
            finally:
                turn.end()

        async for outcomes in self._in_order(send, batches()):
            tally.add(outcomes)
        return tally.enqueued_or_raise()

    async def query(self, uri: Uri, *, identity: Optional[str] = None,
                    timeout: Optional[float] = None) -> Optional[Result]:
        """As `Client.query`."""
        return await self._run(timeout, lambda: self._client.query(uri, identity=identity, timeout=timeout))

    async def query_and_delete(self, uri: Uri, *, identity: Optional[str] = None,
                               timeout: Optional[float] = None) -> Optional[Result]:
        """As `Client.query_and_delete`."""
        return await self._run(timeout, lambda: self._client.query_and_delete(uri, identity=identity, timeout=timeout))

    async def wait(self, uri: Uri, *, identity: Optional[str] = None, timeout: Optional[float] = None) -> Result:
        """As `Client.wait`."""
        return await self._run(timeout, lambda: self._client.wait(uri, identity=identity, timeout=timeout))

    async def results(self, records: Union[Iterable[Uri], AsyncIterable[Uri]], *, take: bool = False,
                      timeout: Optional[float] = None) -> AsyncIterator[Outcome]:
        """As `Client.results`."""
        end = time.monotonic() + check_timeout(self._timeout if timeout is None else timeout)

        async def ask(record: Uri) -> Outcome:
            left = max(_GRACE_SECONDS, end - time.monotonic())
            try:
                return await self._run(left, lambda: self._client._outcome(record, take, end))
            except ServingError as error:
                uri, identity = named(record, None)
                return Outcome(uri, identity or "", None, error.with_uri(uri))

        async for outcome in self._in_order(ask, _each(records)):
            yield outcome

    async def drain(self, *, timeout: Optional[float] = None) -> AsyncIterator[Outcome]:
        """As `Client.drain`."""
        seconds = check_timeout(self._timeout if timeout is None else timeout)
        async for outcome in self._drained(lambda: seconds):
            yield outcome

    async def dequeue(self, *, timeout: Optional[float] = None) -> Dict[str, Union[Result, ServingError]]:
        """As `Client.dequeue`."""
        taken: Dict[str, Union[Result, ServingError]] = {}
        end = time.monotonic() + check_timeout(self._timeout if timeout is None else timeout)
        try:
            async for outcome in self._drained(lambda: max(0.001, end - time.monotonic())):
                taken[outcome.uri] = outcome.found
        except ServingError:
            if not taken:
                raise
        return taken

    async def status(self, uri: Uri, *, identity: Optional[str] = None, timeout: Optional[float] = None) -> str:
        """As `Client.status`."""
        return await self._run(timeout, lambda: self._client.status(uri, identity=identity, timeout=timeout))

    async def cancel(self, uri: Uri, *, timeout: Optional[float] = None) -> bool:
        """As `Client.cancel`."""
        return await self._run(timeout, lambda: self._client.cancel(uri, timeout=timeout))

    async def is_ready(self, *, timeout: Optional[float] = None) -> bool:
        """As `Client.is_ready`."""
        return await self._run(timeout, lambda: self._client.is_ready(timeout=timeout))

    async def close(self) -> None:
        """Closes the connections. Other calls fail."""
        self._client.close()
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def _run(self, timeout: Optional[float], call: Callable[[], _T]) -> _T:
        seconds = check_timeout(self._timeout if timeout is None else timeout)
        control = Call()
        context = contextvars.copy_context()
        context.run(CALL.set, control)
        try:
            future = self._pool.submit(context.run, call)
        except RuntimeError as error:
            raise bad_request("this client was closed") from error
        waiting = asyncio.wrap_future(future)
        try:
            # The thread ends by itself, and says it better; this is for a call that still waits for a thread.
            await asyncio.wait([waiting], timeout=seconds + _GRACE_SECONDS)
            if waiting.done():
                return waiting.result()
        finally:
            control.cancel()
            waiting.cancel()
        raise ServingError("timeout", f"no thread was free within {seconds:g} s: raise max_concurrency ({self._width})")

    async def _drained(self, limit: Callable[[], float]) -> AsyncIterator[Outcome]:
        async def ask(call: Callable[[Deadline], _T]) -> _T:
            seconds = limit()
            return await self._run(seconds, lambda: call(self._client._limit(seconds)))

        more = True
        while True:
            # Here, and not in a thread: what is taken from the client must reach the caller.
            outcome = self._client._take()
            if outcome is not None:
                yield outcome
            elif self._client._left:
                await ask(self._client._fetch_next)
            elif more:
                more = await ask(self._client._take_page)
            else:
                return

    async def _in_order(self, call: Callable[[_A], Awaitable[_T]], items: AsyncIterator[_A]) -> AsyncIterator[_T]:
        flying: Deque["asyncio.Task[_T]"] = deque()
        try:
            async for item in items:
                flying.append(asyncio.ensure_future(call(item)))
                if len(flying) >= self._width:
                    yield await flying.popleft()
            while flying:
                yield await flying.popleft()
        finally:
            for task in flying:
                task.cancel()


async def _each(items: Union[Iterable[_A], AsyncIterable[_A]]) -> AsyncIterator[_A]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
