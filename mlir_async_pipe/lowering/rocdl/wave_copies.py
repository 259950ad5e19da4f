"""Whether lanes that copy side by side can issue a copy that is still a load and a store.

Asked before a scope becomes copies: a scope that a wave cannot issue runs in place, while a
copy that its author wrote as one is refused (`rocdl_copy_plan`).
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.rocdl.rocdl_copy_plan import Copy, plan_copy
from mlir_async_pipe.lowering.rocdl.rocdl_waits import enclosing_function
from mlir_async_pipe.lowering.rocdl.wave_layout import Block
from mlir_async_pipe.lowering.scopes.scope_copies import CopyPair
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.values.uniformity import Uniformity
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.launch_size import block_size, launched_sizes


class WaveCopies:
    """The waves of the functions of a module on one chip; valid as long as nothing is edited."""

    def __init__(self, root: Operation, chip: Chip) -> None:
        self._launches = launched_sizes(root)
        self._chip = chip
        self._uniformity = Uniformity()

    def refuse(self, pair: CopyPair) -> str | None:
        """Why a wave cannot issue the pair, None if it can.

        Raises LoweringError (unknown-block-size): that is for the user to mend.
        """
        if self._chip.copy_form is None:
            return None
        (source,), (target,) = accesses(pair.load), accesses(pair.store)
        copy = Copy(
            pair.store,
            source.memory,
            list(source.indices),
            target.memory,
            list(target.indices),
            pair.piece_bytes // pair.element_bytes,
            None,
        )
        size = block_size(enclosing_function(pair.store), self._launches)
        block = None if size is None else Block(size, self._chip.lanes)
        try:
            plan_copy(copy, self._chip, block, self._uniformity)
        except LoweringError as refused:
            if refused.code == "unknown-block-size":
                raise
            return refused.diagnostic.message
        return None
