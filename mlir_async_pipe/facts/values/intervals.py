"""Intervals of integers, and what operators make of them; an end that is not known is None."""

from __future__ import annotations

Interval = tuple[int | None, int | None]
ANYTHING: Interval = (None, None)


def scaled(interval: Interval, factor: int) -> Interval:
    """The interval of `factor * x` for x in `interval`."""
    low, high = interval
    a = None if low is None else low * factor
    b = None if high is None else high * factor
    return (a, b) if factor >= 0 else (b, a)


def added(first: Interval, second: Interval) -> Interval:
    (a, b), (c, d) = first, second
    return (
        None if a is None or c is None else a + c,
        None if b is None or d is None else b + d,
    )


def product(first: Interval, second: Interval) -> Interval:
    """The least and the largest product of ends."""
    (a, b), (c, d) = first, second
    for one, other in ((first, second), (second, first)):
        if one[0] is not None and one[0] == one[1]:
            return scaled(other, one[0])
    if a is not None and b is not None and c is not None and d is not None:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    both = a is not None and a >= 0 and c is not None and c >= 0
    return (0, None) if both else ANYTHING


def common_bits(first: Interval, second: Interval) -> Interval:
    """Bits that both have: no larger than one that is not negative."""
    masks = [h for low, h in (first, second) if low is not None and low >= 0 and h is not None]
    return (0, min(masks)) if masks else ANYTHING


def either_bits(first: Interval, second: Interval) -> Interval:
    """Bits that one of them has: no longer than the longer one."""
    (a, b), (c, d) = first, second
    if a is None or c is None or a < 0 or c < 0:
        return ANYTHING
    return 0, None if b is None or d is None else (1 << max(b.bit_length(), d.bit_length())) - 1


def least(first: int | None, second: int | None) -> int | None:
    """The smaller one of what is given."""
    return second if first is None else first if second is None else min(first, second)


def smaller(first: Interval, second: Interval) -> Interval:
    """The smaller one: no larger than the largest number of either."""
    (a, b), (c, d) = first, second
    return None if a is None or c is None else min(a, c), least(b, d)


def larger(first: Interval, second: Interval) -> Interval:
    """The larger one: no smaller than the smallest number of either."""
    low, high = smaller(scaled(first, -1), scaled(second, -1))
    return scaled((low, high), -1)


def either(first: Interval, second: Interval) -> Interval:
    return smaller(first, second)[0], larger(first, second)[1]
