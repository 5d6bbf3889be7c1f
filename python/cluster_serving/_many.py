"""Many records at once, with a bounded number in flight."""
from __future__ import annotations

import contextvars
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import (Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, TypeVar,
                    Union)

from ._api import CALL, Call
from ._errors import ServingError
from ._inputs import Input
from ._results import Enqueued

# Uris of records that may be under way.
_MOST_TURNS = 10_000
# Errors after which enqueue_many reads no further records.
_MOST_ERRORS = 100

_A = TypeVar("_A")
_B = TypeVar("_B")


class Record(NamedTuple):
    """A record of `enqueue_many`. Plain tuples do as well."""

    uri: str
    inputs: Mapping[str, Input]
    identity: Optional[str] = None
    notify: Optional[str] = None
    task_token: Optional[str] = None
    canary_key: Optional[str] = None
    expires_after: Optional[int] = None
    delay_seconds: Optional[int] = None
    priority: Optional[str] = None
    model: Optional[str] = None


class EnqueueError(ServingError):
    """Some records of `enqueue_many` were not accepted.

    `errors` has one error for each, with its uri; `enqueued` are the others. After 100 errors no more records are read.
    """

    def __init__(self, errors: List[ServingError], enqueued: List[Enqueued]) -> None:
        first = errors[0]
        count = f"{len(errors)} of {len(errors) + len(enqueued)} records were not enqueued"
        super().__init__(first.code, f"{count}; the first, {first.uri}: {first.message}", first.uri, first.retry_after)
        self.errors = errors
        self.enqueued = enqueued

    def __reduce__(self) -> Tuple[Any, ...]:
        return EnqueueError, (self.errors, self.enqueued)


class Tally:
    """The outcomes of the records of `enqueue_many` so far."""

    def __init__(self) -> None:
        self._enqueued: List[Enqueued] = []
        self._errors: List[ServingError] = []

    @property
    def is_enough(self) -> bool:
        """True if too many records failed to read more."""
        return len(self._errors) >= _MOST_ERRORS

    def batches(self, records: Iterable[_A], size: int) -> Iterator[List[_A]]:
        """The records, `size` at a time."""
        left = iter(records)
        while not self.is_enough:
            batch = list(islice(left, size))
            if not batch:
                return
            yield batch

    def add(self, outcomes: Iterable[Union[Enqueued, ServingError]]) -> None:
        """Returns the next records."""
        for outcome in outcomes:
            if isinstance(outcome, ServingError):
                self._errors.append(outcome)
            else:
                self._enqueued.append(outcome)

    def enqueued_or_raise(self) -> List[Enqueued]:
        """The records that the queue has. Raises EnqueueError when there are others."""
        if self._errors:
            raise EnqueueError(self._errors, self._enqueued)
        return self._enqueued


class Turn:
    """Some records, each with a uri of its own, and the turns that they come after."""

    def __init__(self, records: List[Any], before: List["Future[None]"]) -> None:
        self.records = records
        self.before = before
        self.ended: "Future[None]" = Future()

    def run(self, call: Callable[[List[Any]], _B]) -> _B:
        """Calls for the records when it is their turn."""
        try:
            for each in self.before:
                each.result()
            return call(self.records)
        finally:
            self.end()

    def end(self) -> None:
        """Lets those begin that come after it."""
        if not self.ended.done():
            self.ended.set_result(None)


class Turns:
    """Keeps the records of one uri in their order: of several the last one counts. Others are sent meanwhile."""

    def __init__(self) -> None:
        self._last: Dict[str, "Future[None]"] = {}

    def of(self, batches: Iterable[List[Any]]) -> Iterator[Turn]:
        """Each of the batches, in parts where a uri comes twice."""
        for batch in batches:
            yield from self.parts(batch)

    def parts(self, batch: List[Any]) -> Iterator[Turn]:
        """The turns of one batch."""
        part: Dict[str, None] = {}
        start = 0
        for i, record in enumerate(batch):
            uri = record[0] if isinstance(record, tuple) and record else None
            if not isinstance(uri, str):
                continue
            if uri in part:
                yield self._next(batch[start:i], part)
                part, start = {}, i
            part[uri] = None
        yield self._next(batch[start:], part)

    def _next(self, records: List[Any], uris: Iterable[str]) -> Turn:
        if len(self._last) > _MOST_TURNS:
            self._last = {uri: ended for uri, ended in self._last.items() if not ended.done()}
        turn = Turn(records, [self._last[uri] for uri in uris if uri in self._last])
        self._last.update((uri, turn.ended) for uri in uris)
        return turn


def in_order(call: Callable[[_A], _B], items: Iterable[_A], width: int, may_cancel: bool = False) -> Iterator[_B]:
    """Calls for the items, `width` at a time, and yields what it returns in their order.

    Who ends the iterator waits for the calls in flight, or cancels them.
    """
    flying: Deque[Tuple["Future[_B]", Call]] = deque()
    with ThreadPoolExecutor(width) as pool:
        try:
            for item in items:
                control = Call()
                context = contextvars.copy_context()
                if may_cancel:
                    context.run(CALL.set, control)
                flying.append((pool.submit(context.run, call, item), control))
                if len(flying) >= 2 * width:
                    yield flying.popleft()[0].result()
            while flying:
                yield flying.popleft()[0].result()
        finally:
            for future, control in flying if may_cancel else ():
                future.cancel()
                control.cancel()
