"""What ops do with mbarriers: a table beside that of `async_ops`, for no analysis follows phases yet.

Ops that stand here only have no row, so that analyses take them for what they cannot see through,
and refuse. Copies that complete on an mbarrier have a row as well (`completion="mbarrier"`).

| use     | what it does (PTX ISA, mbarrier)                                            |
|---------|-----------------------------------------------------------------------------|
| handle  | makes a name of mbarriers, or of one of them                                 |
| init    | sets the arrivals of each phase                                              |
| arrive  | `arrivals` arrive (one, where the op names no number)                        |
| expect  | one arrives, and announces `bytes`                                           |
| wait    | stops until the phase of parity `phase` is over                              |
| test    | asks whether the phase of `phase`, a parity or what an arrival gave, is over |
| copy    | lands later, and takes its bytes off those announced                         |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Use = Literal["handle", "init", "arrive", "expect", "wait", "test", "copy"]


@dataclass(frozen=True)
class MbarrierRule:
    """One op kind. `operands` names its ODS operand groups in order as a row does; `barrier` is a
    group of mbarriers with the number `index`, or a pointer to one where there is no `index`."""

    op: str
    use: Use
    operands: tuple[str, ...]


_NVGPU = (
    MbarrierRule("nvgpu.mbarrier.create", "handle", ()),
    MbarrierRule("nvgpu.mbarrier.get", "handle", ("barrier", "index")),
    MbarrierRule("nvgpu.mbarrier.init", "init", ("barrier", "arrivals", "index", "predicate?")),
    MbarrierRule("nvgpu.mbarrier.arrive", "arrive", ("barrier", "index")),
    MbarrierRule("nvgpu.mbarrier.arrive.nocomplete", "arrive", ("barrier", "index", "arrivals")),
    MbarrierRule(
        "nvgpu.mbarrier.arrive.expect_tx", "expect", ("barrier", "bytes", "index", "predicate?")
    ),
    MbarrierRule("nvgpu.mbarrier.try_wait.parity", "wait", ("barrier", "phase", "ticks", "index")),
    MbarrierRule("nvgpu.mbarrier.test.wait", "test", ("barrier", "phase", "index")),
    MbarrierRule(
        "nvgpu.tma.async.load",
        "copy",
        (
            "destination",
            "barrier",
            "tensor_map",
            "coordinates*",
            "index",
            "multicast?",
            "predicate?",
        ),
    ),
)
_NVVM = (
    MbarrierRule("nvvm.mbarrier.init", "init", ("barrier", "arrivals", "predicate?")),
    MbarrierRule("nvvm.mbarrier.arrive", "arrive", ("barrier", "arrivals?")),
    MbarrierRule("nvvm.mbarrier.arrive.nocomplete", "arrive", ("barrier", "arrivals")),
    MbarrierRule("nvvm.mbarrier.arrive.expect_tx", "expect", ("barrier", "bytes", "predicate?")),
    MbarrierRule("nvvm.mbarrier.try_wait.parity", "wait", ("barrier", "phase", "ticks")),
    MbarrierRule("nvvm.mbarrier.try_wait", "test", ("barrier", "phase", "ticks?")),
    MbarrierRule("nvvm.mbarrier.test.wait", "test", ("barrier", "phase")),
    MbarrierRule(
        "nvvm.cp.async.bulk.shared.cluster.global",
        "copy",
        ("destination", "source", "barrier", "bytes", "multicast?", "l2_cache_hint?"),
    ),
)

MBARRIER_OPS = {rule.op: rule for rule in _NVGPU + _NVVM}

# Fences after which the async proxy sees what the thread has written: all of it, or the mbarriers
# that it initialised.
PROXY_FENCES: dict[str, Literal["all", "mbarriers"]] = {
    "nvvm.fence.proxy": "all",
    "nvvm.fence.mbarrier.init": "mbarriers",
}
