"""Pass `async-pipe-count-waits`: exact counts for waits that name their groups by tokens.

    nvgpu.device_async_wait %t  -->  nvgpu.device_async_wait %t {numGroups = 1 : i32}

The count is the least number of groups committed after the one that the token denotes, over
all paths to the wait. One more would leave that group in flight on some path.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.chips.target import target_for
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.waits.consumers import check_depths, consumer_records, takes_next
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.run_time.count_operands import (
    make_counts_constant,
    waits_with_count_operands,
)
from mlir_async_pipe.waits.run_time.dynamic import switch_on_counters
from mlir_async_pipe.waits.verify import refuse_negative_counts, verify_counts
from mlir_async_pipe.waits.write_counts import write_counts, write_record

__all__ = ["Analysis", "CountWaitsOptions", "count_waits"]


@dataclass(frozen=True)
class CountWaitsOptions:
    """Options of `async-pipe-count-waits`.

    `chip` says where the module is going ("": every abstract queue is its own FIFO). `check`
    verifies the counts that stand there instead of writing. `mode` "dynamic" counts groups
    that are committed under conditions at run time. `keep_given` leaves waits alone that
    have a count.
    """

    chip: str = ""
    check: bool = False
    mode: str = field(default="static", metadata={"choices": ("static", "dynamic")})
    keep_given: bool = False


@passes.register(
    "async-pipe-count-waits",
    "give each token wait its exact count of groups in flight",
    CountWaitsOptions,
)
def count_waits(module_op: Any, options: CountWaitsOptions, session: Session) -> None:
    """Count the token waits of a module, and write the counts (or check the given ones).

    Raises CountError for a wait on something that is no token; nothing is written then.
    """
    target = target_for(options, session)
    if options.mode == "dynamic" or session.explain:
        # Both go by the reasons of the counts, which witnesses give.
        session = dataclasses.replace(session, witnesses=True)
    analysis = Analysis(module_op.operation, target)
    counted = analysis.count(session.witnesses or options.check)
    with_operands = waits_with_count_operands(analysis.with_numbers)
    taken = consumer_records(analysis, session)
    check_depths(analysis, session)
    stays = options.check or options.keep_given
    # Others get counts of ours.
    given = [
        item for item in analysis.graph.waits if stays or not (item.operands or takes_next(item))
    ]
    refuse_negative_counts(given, session)
    if options.check:
        verify_counts(counted, session)
        return
    make_counts_constant(with_operands, session)
    written = write_counts(counted, options.keep_given, _covering_others(analysis), session)
    for item, record in taken:
        if not (options.keep_given and record.given is not None):
            write_record(item, record, session)
    if options.mode == "dynamic":
        switch_on_counters(analysis, written, session)
    analysis.graph.take_apart()


def _covering_others(analysis: Analysis) -> set[Item]:
    """The waits of functions that commit a group to their queue which no wait names by its token."""
    unnamed = {(_root(item), item.queue) for item in analysis.graph.commits if not item.results}
    return {wait for wait in analysis.waits if (_root(wait), wait.queue) in unnamed}


def _root(item: Item) -> Item:
    while item.node is not None and not item.is_root:
        item = item.node.frame.item
    return item
