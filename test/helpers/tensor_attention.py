"""Attention in tensor memory by the warps of FlashAttention-4, with every part that orders something open to change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from helpers.hopper_attention import BlackwellAttention


@dataclass(frozen=True)
class ChangedAttention(BlackwellAttention):
    """A kernel with parts and columns changed, by their names."""

    changes: dict[str, str] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)

    def changed(self, **changes: str) -> ChangedAttention:
        """With other parts."""
        return replace(self, changes=changes)

    @property
    def columns(self) -> dict[str, int]:
        """Where what a group has in tensor memory begins, some of it elsewhere."""
        return {**super().columns, **self.moved}

    def _text(self, name: str, text: str) -> str:
        return self.changes.get(name, text)


_NO_FENCE, _NOT_SEEN, _STUCK = "missing-tensor-fence", "missing-barrier", "deadlock"
_LEFT_OUT: dict[str, set[str]] = {
    **{f"wait {name}": {"read-in-flight"} for name in ("ready", "full", "summed")},
    **{f"wait {name}": {_NOT_SEEN} for name in ("scored", "weighed", "changed", "taken", "scaled")},
    "wait empty": {"too-many-arrivals"},
    **{f"commit {name}": {_STUCK} for name in ("scored", "summed", "empty")},
    **{f"arrive {name}": {_STUCK} for name in ("weighed", "changed", "taken", "scaled")},
    **{f"expect {name}": {_STUCK} for name in ("ready", "full")},
    **{f"before {name}": {_NO_FENCE, _NOT_SEEN} for name in ("weighed", "changed", "taken")},
    "before scaled": {_NO_FENCE},
    **{f"after {name}": {_NO_FENCE} for name in ("scored", "changed", "taken", "scaled", "summed")},
    **{f"wait load {name}": {"read-in-flight"} for name in ("s", "factor", "o")},
    **{f"wait store {name}": {"read-in-flight"} for name in ("p", "factor", "o")},
    "fence init": {"missing-fence"},
    "meet": {_NOT_SEEN, "out-of-bounds", "overwrite-in-flight"},
}
# What is wrong with such kernels of one group, and what the checker may call it: the first on a path.
MUTANTS: dict[str, tuple[dict[str, str], set[str]]] = {
    **{f"no {part}": ({part: ""}, codes) for part, codes in _LEFT_OUT.items()},
    "all threads of a warp multiply": ({"elect": "arith.constant true"}, {"several-issuers"}),
    "all threads arrive": (
        {
            "arrive weighed": "%token = nvgpu.mbarrier.arrive %weighed[%c0] : !nvgpu.mbarrier.group<memorySpace"
            " = #gpu.address_space<workgroup>> -> !nvgpu.mbarrier.token"
        },
        {"too-many-arrivals"},
    ),
}
