"""What the ops of `demo` read, write, issue, commit and wait for."""

from functools import partial

from mlir_async_pipe.vocabulary.async_ops import TOKEN_WAIT, copy
from mlir_async_pipe.vocabulary.memory_ops import neighbours
from mlir_async_pipe.vocabulary.rows import CP_ASYNC, Queue, Row

DMA = Queue("dma", "thread", largest_count=31)

_copy = partial(
    copy,
    operands=("destination", "destination_indices*", "source", "source_index"),
    extent=neighbours("elements"),
    source_indices="source_index",
    token=True,
)
ROWS = (
    _copy("demo.copy", queue=CP_ASYNC),
    _copy("demo.dma_copy", queue=DMA),
    Row("demo.dma_commit", ("tokens*",), queue=DMA, commits="group", token=True),
    Row("demo.dma_wait", ("token",), queue=DMA, wait=TOKEN_WAIT),
)
