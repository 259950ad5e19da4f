"""Settles instructions of inline assembly whose predicate the back end found to be constant.

    @0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r4;      -->  (nothing)
    @-1 mbarrier.init.shared.b64 [%r1], %r5;                    -->  mbarrier.init.shared.b64 [%r1], %r5;

MLIR writes `@$0 instruction` for its ops with a predicate, of a register or a constant: a copy that no
iteration issues, since the loop has none. A predicate of PTX is a register, and ptxas refuses a number.
"""

from __future__ import annotations

import re

_KNOWN = re.compile(r"^([ \t]*)@(0|-?1)[ \t]+([^;]*;[^\n]*\n?)", re.M)


def settle_predicates(ptx: str) -> str:
    """The PTX without predicates that are numbers."""
    return _KNOWN.sub(lambda found: "" if found[2] == "0" else found[1] + found[3], ptx)
