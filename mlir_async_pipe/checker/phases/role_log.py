"""What the roles of a kernel do with its mbarriers, gathered over all paths, for reports."""

from __future__ import annotations

from typing import Literal, NamedTuple

Does = Literal["waits", "arrives", "announces", "copies"]
# Stand for the root of barriers that have a number and no memory, and of that where the threads of a
# cluster meet.
NAMED, MEETING = -1, -2
# Numbers of barriers that have one, in each block.
NUMBERS = 16


class RoleStep(NamedTuple):
    """What threads do with the mbarriers of a root (`NAMED`: with barriers that have a number, `MEETING`: with that of the cluster), which
    the op `init` initialises to `needs` arrivals a phase."""

    does: Does
    op: int
    mask: int
    root: int
    init: int
    needs: int


# With which of these mbarriers, and in phases of which parity.
RoleLog = dict[RoleStep, set[tuple[int, int]]]
