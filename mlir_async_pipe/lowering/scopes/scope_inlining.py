"""Puts the ops of an `async_pipe.scope` where the scope stands.

    "async_pipe.scope"() ({ a; b; yield })   -->  a; b

Several blocks (a scope with conditions, after convert-scf-to-cf) become an
scf.execute_region, which may stand inside any loop or condition, and which a later
convert-scf-to-cf dissolves.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    create,
    operations,
)


def inline_scope(scope: Operation) -> None:
    """Dissolve one scope."""
    blocks = list(scope.regions[0].blocks)
    if len(blocks) == 1:
        *body, end = operations(blocks[0])
        end.erase()
        for op in body:
            op.move_before(scope)
        scope.erase()
        return
    region = create("scf.execute_region", regions=1, ip=before(scope), loc=scope.location)
    for block in blocks:
        block.append_to(region.regions[0])
    for block in list(region.regions[0].blocks):
        end = operations(block)[-1]
        if end.name == "async_pipe.yield":
            create("scf.yield", ip=before(end), loc=end.location)
            end.erase()
    scope.erase()
