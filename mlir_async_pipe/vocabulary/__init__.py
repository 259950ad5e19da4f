"""The one table: what every op issues, commits, waits for, reads, writes and orders.

row_of(op)       the row of an op, `UNKNOWN` if the table does not know it
accesses(op)     what this op reads and writes, with subscripts and extents
queue_of(op)     the queue that this op issues to, commits to or waits for
order_of(op)     what it orders: acquire, release, among volatile and atomic accesses
is_pure(op)      the op is known to touch no memory
"""

from __future__ import annotations

from mlir_async_pipe.session import plugins
from mlir_async_pipe.vocabulary.async_ops import ASYNC_ROWS, INTRINSIC_ROWS
from mlir_async_pipe.vocabulary.mbarrier_ops import PHASE_ROWS
from mlir_async_pipe.vocabulary.memory_names import ALLOCATION_OPS, VIEW_OPS  # noqa: F401
from mlir_async_pipe.vocabulary.memory_ops import MEMORY_ROWS, VENDOR_ROWS
from mlir_async_pipe.vocabulary.op_table import (  # noqa: F401
    ROWS,
    Access,
    accesses,
    flag_order,
    given_count,
    groups_of,
    has_only_a_count,
    is_barrier,
    is_partial_barrier,
    is_pure,
    is_store,
    is_unseen_copy,
    is_wait_name,
    meets_cluster,
    meets_whole_warp,
    named_row,
    names_block,
    opaque_of,
    operand_groups,
    order_of,
    queue_of,
    row_of,
    set_count,
    shows_writes,
    tensor_use,
    use_of,
)
from mlir_async_pipe.vocabulary.ptx_rows import PTX_ROWS
from mlir_async_pipe.vocabulary.pure_ops import OPAQUE_ROWS, PURE_ROWS
from mlir_async_pipe.vocabulary.rows import AccessKind, Queue, Row, WaitRule  # noqa: F401
from mlir_async_pipe.vocabulary.tensor_memory import TENSOR_ROWS

# A row of another package is there for every analysis, as one of ours is.
_OTHERS = [row for entry in plugins.entries("vocabulary").values() for row in entry.load()]
ASYNC_ROWS.update({row.op: row for row in _OTHERS if row.queue is not None})
for table in (INTRINSIC_ROWS, ASYNC_ROWS, MEMORY_ROWS, VENDOR_ROWS):
    ROWS.update(table)
ROWS.update(
    (row.op, row)
    for row in (*PHASE_ROWS, *PTX_ROWS, *TENSOR_ROWS, *OPAQUE_ROWS, *PURE_ROWS, *_OTHERS)
)
