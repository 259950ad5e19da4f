"""Which async groups must be over before which unit.

Every need's group is committed before the unit that needs it: the source runs before the
target (`legality`), and a group holds neighbours in kernel order of one stage without a
conflict between them (`groups`), so no target stands between a member and the commit. The
only wait that could come before its commit, of a consumer inside its producer's group, is
split into two groups instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.dependence.memory import Dependence
from mlir_async_pipe.expand.buffers import BufferPlan
from mlir_async_pipe.expand.groups import Group
from mlir_async_pipe.expand.units import Unit, Units


@dataclass(frozen=True)
class Need:
    """Before `unit` runs for iteration k, `group` of iteration k - distance must be over."""

    unit: Unit
    group: Group
    distance: int

    @property
    def lag(self) -> int:
        """Kernel steps between the commit of the group and this unit."""
        return self.unit.stage + self.distance - self.group.stage


def needs_of(dependences: list[Dependence], units: Units, group_of: dict[int, Group]) -> list[Need]:
    """A wait for each dependence whose source is async and in another unit or iteration."""
    needs = []
    for dependence in dependences:
        source = units.unit_of(dependence.source.top)
        target = units.unit_of(dependence.target.top)
        if not source.asynchronous:
            continue
        if source.position == target.position and dependence.distance == 0:
            continue
        needs.append(Need(target, group_of[source.position], dependence.distance))
    return list(dict.fromkeys(needs))


def reuse_needs(
    buffers: tuple[BufferPlan, ...], units: Units, group_of: dict[int, Group]
) -> list[Need]:
    """Async accesses of a slot must be over before the slot is used again V iterations later."""
    needs = []
    for buffer in buffers:
        tops = [units.unit_of(region.top) for region in buffer.regions]
        for first, second in sorted(buffer.meeting):
            source, target = tops[first], tops[second]
            if source.asynchronous:
                needs.append(Need(target, group_of[source.position], buffer.versions))
    return list(dict.fromkeys(needs))
