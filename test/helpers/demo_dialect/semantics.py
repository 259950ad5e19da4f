"""What the machine does for the ops of `demo`."""

from typing import Any

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.async_ops import issue_copy, physical_commit, physical_wait
from mlir_async_pipe.machine.dialects.gpu import as_bytes
from mlir_async_pipe.machine.lane_values import Token, lanes_of

semantics("demo.dma_commit")(physical_commit)
semantics("demo.dma_wait")(physical_wait)


@semantics("demo.copy", "demo.dma_copy")
def demo_copy(site: Site) -> Execute:
    count, queue = site.integer("elements") or 1, site.queue()

    def execute(unit: Unit, destination: Any, *operands: Any) -> Token:
        *to_indices, source, from_index = operands
        target = access.locate(unit, site, destination, tuple(to_indices), (count,))
        origin = access.locate(unit, site, source, (from_index,), (count,))
        issue_copy(unit, site, queue, as_bytes(unit, origin), as_bytes(unit, target))
        return Token(queue.name, lanes_of(unit.marks(queue).count, unit.width).copy())

    return execute
