"""The physical queues (FIFOs) of the hardware, and how abstract queues map onto them.

A *queue* is a first-in first-out sequence of commit groups. `wait N` on it blocks until at
most the N most recent groups are in flight (PTX ISA, cp.async.wait_group; LLVM, AMDGPU
asynchronous operations, wait.asyncmark). Counts are made per queue, so which ops share one
is the first fact that every analysis needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scope = Literal["thread", "function"]


@dataclass(frozen=True)
class Queue:
    """One FIFO of commit groups.

    `scope` says whose groups a wait counts: "thread" all that the thread committed,
    "function" only those that the running function body committed itself.
    `largest_count` is the largest N that a wait can express, None if unlimited.
    `copies_in_flight` bounds the ops (not groups) that the hardware tracks, None if unlimited.
    """

    name: str
    scope: Scope
    largest_count: int | None = None
    copies_in_flight: int | None = None


# ptxas clamps a larger N to 63 without a word.
CP_ASYNC = Queue("cp.async", "thread", largest_count=63)
BULK_STORE = Queue("bulk-store", "thread")
# PTX ISA, wgmma.wait_group: N in 0..7.
WGMMA = Queue("wgmma", "thread", largest_count=7)
# LLVM's back end tracks 16 marks, of which 15 may stay in flight; vmcnt has 6 bits, and 63
# stands for "do not wait", so 62 copies can be told apart.
ASYNC_LDS = Queue("async-lds", "function", largest_count=15, copies_in_flight=62)
ASYNCCNT = Queue("asynccnt", "thread", largest_count=63)
TENSORCNT = Queue("tensorcnt", "thread", largest_count=63)
# Registers on their way from and to tensor memory: a wait names none of them, but covers all.
TENSOR_LOADS = Queue("tensor-loads", "thread")
TENSOR_STORES = Queue("tensor-stores", "thread")

PHYSICAL_QUEUES = {
    queue.name: queue for queue in (CP_ASYNC, BULK_STORE, WGMMA, ASYNC_LDS, ASYNCCNT, TENSORCNT)
}


def abstract_queue(number: int) -> Queue:
    """The FIFO of abstract queue `number` (RFC 0077) as long as no target is given."""
    return Queue(f"queue {number}", "thread")
