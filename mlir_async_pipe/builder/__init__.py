"""Pipelines built from Python: rings of slots, what is produced into them and consumed from them.

    from mlir_async_pipe import Pipeline, copy_tile

Public: `Pipeline`, `RolePipeline`, `copy_tile`. Writes plain ops, abstract async ops and annotated loops, which the
passes make into pipelines; misuse is an error with the line of Python that did it. Imports loops,
values, vocabulary, bindings and session.
"""

from mlir_async_pipe.builder.pipeline import Pipeline
from mlir_async_pipe.builder.roles import RolePipeline
from mlir_async_pipe.builder.tiles import copy_tile

__all__ = ["Pipeline", "RolePipeline", "copy_tile"]
