"""What `demo.copy` reads, writes and issues."""

from mlir_async_pipe.vocabulary.async_ops import copy
from mlir_async_pipe.vocabulary.memory_ops import neighbours
from mlir_async_pipe.vocabulary.rows import CP_ASYNC

ROWS = (
    copy(
        "demo.copy",
        ("destination", "destination_indices*", "source", "source_index"),
        CP_ASYNC,
        neighbours("elements"),
        source_indices="source_index",
        token=True,
    ),
)
