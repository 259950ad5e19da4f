"""Questions about IR that nobody edits for a while are answered once.

    with unchanged():
        plan = make_plan(loop)         root_of(%b) follows the views of %b once

Planning a loop asks for the ops of a function, the root of a buffer and the maker of a value some
hundred times, and questions to the bindings are dear (docs/speed.md). The answers are the table of
what has been read so far: passes that read hold it open over all their loops. They are forgotten at
the end of the block: a handle does not outlive an edit; where one edits inside of it nevertheless,
it says so (`edited`). Outside of such a block nothing is remembered.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class _Answers(threading.local):
    """The answers of this thread by function, None while the IR may change."""

    by_function: defaultdict[Any, dict[Any, Any]] | None = None


_answers = _Answers()
_UNASKED = object()


@contextmanager
def unchanged() -> Iterator[None]:
    """Inside, the IR is not edited (by this thread); nesting is the outer block."""
    if _answers.by_function is not None:
        yield
        return
    _answers.by_function = defaultdict(dict)
    try:
        yield
    finally:
        _answers.by_function = None


def edited() -> None:
    """The IR was edited all the same: what was answered before is forgotten."""
    if _answers.by_function is not None:
        _answers.by_function.clear()


def remembered(function: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """Let a function of one value or op answer each question once while the IR is `unchanged`.

    Its answers are shared, so they must not be changed."""

    @wraps(function)
    def ask(about: Any) -> Answer:
        answers = _answers.by_function
        if answers is None:
            return function(about)
        known = answers[function]
        answer = known.get(about, _UNASKED)
        if answer is _UNASKED:
            answer = known[about] = function(about)
        return answer

    return ask
