"""Many records at once, with a bounded number in flight."""
from __future__ import annotations

import contextvars
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import (Any, Callable, Deque, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, TypeVar,
                    Union)

from ._api import CALL, Call
from ._errors import ServingError
from ._inputs import Input
from ._results import Enqueued

# Of enqueue_many, which then reads no further records.
_MOST_ERRORS = 100

_A = TypeVar("_A")
_B = TypeVar("_B")


class Record(NamedTuple):
    """A record of `enqueue_many`. Plain tuples do as well."""

    uri: str
    inputs: Mapping[str, Input]
    identity: Optional[str] = None


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
    """What became of the records of `enqueue_many` so far."""

    def __init__(self) -> None:
        self._enqueued: List[Enqueued] = []
        self._errors: List[ServingError] = []

    @property
    def is_enough(self) -> bool:
        """Whether so many records failed that no more are read."""
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
        """Of the next records."""
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
