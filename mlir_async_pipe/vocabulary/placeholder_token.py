"""The token that stands where no group is: what a pass writes for a token that nobody waits for."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import constant, create
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE


def no_group(ip: Any, loc: Any) -> Any:
    """A token that stands for no group, where no wait reads it.

    Tokens are i32 for the back ends, and the cast goes when they are converted.
    """
    zero = constant(0, ir.IntegerType.get_signless(32, loc.context), ip, loc)
    cast, token = "builtin.unrealized_conversion_cast", ir.Type.parse(TOKEN_TYPE, loc.context)
    return create(cast, [zero], [token], ip=ip, loc=loc).results[0]
