"""`Pipeline`: hand-written pipelines through the bindings, without tokens or counts.

    pipe = Pipeline(depth=2)
    with pipe.produce():            "async_pipe.producer_acquire"() {depth = 2, queue = 0}
        copy(batch, slot)     -->   "async_pipe.scope"() ({ copy; "async_pipe.yield"() }) {queue = 0}
                                    %t = "async_pipe.commit_queue"() {queue = 0}
    with pipe.consume():            "async_pipe.consumer_wait"() {queue = 0}
        use(slot)                   use
                                    "async_pipe.consumer_release"() {queue = 0}

Ops go to the current insertion point. Each wait takes the oldest group that none took before;
`async-pipe-count-waits` finds how many younger ones may stay in flight, and checks on all paths
that acquired minus released slots stay within `depth`: with depth 2, acquiring a third slot
before one is released is an error. The slot's address is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, create
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE


@dataclass(frozen=True)
class Pipeline:
    """One queue of groups with `depth` slots; `queue` tells pipelines of a function apart.

    `depth`: slots of the ring, so at most as many groups are produced and not yet released.
    `queue`: the number of an abstract queue, from 0.

    Raises UsageError (bad-argument) if `depth` is below 1 or `queue` below 0.
    """

    depth: int
    queue: int = 0

    def __post_init__(self) -> None:
        if self.depth < 1 or self.queue < 0:
            raise UsageError(
                f"a pipeline of depth {self.depth} on queue {self.queue}, expected a depth of 1 "
                "or more and a queue of 0 or more",
                code="bad-argument",
            )

    @contextmanager
    def produce(self) -> Iterator[None]:
        """Acquire a slot, issue what the block emits asynchronously, commit it as one group.

        `with pipe.produce():` emits at the current insertion point, as do all methods.
        """
        self.producer_acquire()
        with self.issue():
            yield
        self.commit()

    @contextmanager
    def consume(self) -> Iterator[None]:
        """Wait for the oldest group not taken yet, emit the block, release the slot."""
        self.consumer_wait()
        yield
        self.consumer_release()

    def producer_acquire(self) -> None:
        """Take a free slot."""
        self._emit("producer_acquire", depth=self.depth)

    @contextmanager
    def issue(self) -> Iterator[None]:
        """What the block emits runs asynchronously, in any order until it is waited for."""
        scope = self._emit("scope", regions=1)
        block = scope.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            yield
            create("async_pipe.yield", ip=ir.InsertionPoint.current, loc=scope.location)

    def commit(self) -> Value:
        """Commit all that was issued since the last commit as one group; returns its token."""
        token = ir.Type.parse(TOKEN_TYPE)
        return self._emit("commit_queue", results=[token]).results[0]

    def consumer_wait(self) -> None:
        """Wait for the oldest group that no consumer_wait took before."""
        self._emit("consumer_wait")

    def wait(self, *tokens: Value) -> None:
        """Wait for the groups of these tokens, which `commit` returned."""
        self._emit("wait_queue", operands=tokens)

    def consumer_release(self) -> None:
        """Give the oldest slot taken back to the producer."""
        self._emit("consumer_release")

    def _emit(
        self,
        name: str,
        operands: tuple[Value, ...] = (),
        results: list[Any] | None = None,
        regions: int = 0,
        **numbers: int,
    ) -> Any:
        wide = ir.IntegerType.get_signless(64)
        attributes = {
            key: ir.IntegerAttr.get(wide, value)
            for key, value in (("queue", self.queue), *numbers.items())
        }
        return create(
            f"async_pipe.{name}",
            operands,
            results or [],
            attributes,
            regions=regions,
            ip=ir.InsertionPoint.current,
            loc=ir.Location.current,
        )
