"""Our dataclasses do what the standard library's do, whatever is asked of them first.

Covers: session/light_dataclass.py
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from mlir_async_pipe.session import light_dataclass

T = TypeVar("T")
Decorator = Callable[..., Any]


def plain(frozen: Decorator) -> type:
    @frozen(frozen=True)
    class Point:
        """A point."""

        x: int
        y: int = 2

    return Point


def factories(frozen: Decorator) -> type:
    @frozen(frozen=True)
    class Point:
        x: int
        names: list[str] = field(default_factory=list)
        seen: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
        made: tuple[int, ...] = field(default=(), init=False)
        more: list[int] = field(default_factory=list, init=False, hash=False)
        many: ClassVar[int] = 5

    return Point


def without_eq(frozen: Decorator) -> type:
    @frozen(frozen=True, eq=False)
    class Point:
        x: int
        y: int = 2

    return Point


def own_methods(frozen: Decorator) -> type:
    @frozen(frozen=True)
    class Point:
        x: int
        y: int = 2

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below 0")

        def __repr__(self) -> str:
            return f"<{self.x}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Point) and self.x == other.x

        @cached_property
        def sum(self) -> int:
            return self.x + self.y

    return Point


def generic(frozen: Decorator) -> type:
    @frozen(frozen=True)
    class Point(Generic[T]):
        x: T
        y: int = 2

    return Point


def inherited(frozen: Decorator) -> type:
    @frozen(frozen=True)
    class Base:
        x: int

    @frozen(frozen=True)
    class Point(Base):
        y: int = 2

    return Point


def slots(frozen: Decorator) -> type:
    @frozen(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2

    return Point


def by_keyword(frozen: Decorator) -> type:
    @frozen(frozen=True)
    class Point:
        x: int = field(kw_only=True)
        y: int = 2

    return Point


def mutable(frozen: Decorator) -> type:
    @frozen
    class Point:
        x: int
        y: int = 2

    return Point


def mutable_without_eq(frozen: Decorator) -> type:
    @frozen(eq=False)
    class Point:
        x: int
        names: list[str] = field(default_factory=list)

        def __post_init__(self) -> None:
            self.made = len(self.names)

    return Point


def mutable_with_hash(frozen: Decorator) -> type:
    @frozen
    class Point:
        x: int
        y: int = 2

        def __hash__(self) -> int:
            return 7

    return Point


def of_none(frozen: Decorator) -> type:
    @frozen(frozen=True)
    class Point:
        pass

    return Point


SHAPES = (
    plain, factories, without_eq, own_methods, generic, inherited, slots, by_keyword, mutable, mutable_without_eq, mutable_with_hash,
    of_none,
)  # fmt: skip


def outcome(ask: Callable[[type], Any], cls: type) -> Any:
    """What comes of a question, an exception by its class and message."""
    try:
        return ask(cls)
    except Exception as error:
        return type(error), str(error).replace(cls.__qualname__, "")


def one(cls: type) -> Any:
    return cls(x=1) if dataclasses.fields(cls) else cls()


def set_field(cls: type) -> None:
    one(cls).x = 5


def set_other(cls: type) -> None:
    one(cls).other = 5


def set_on_subclass(cls: type) -> Any:
    made = type("Sub", (cls,), {}).__call__(x=1)
    made.other = 7
    made.x = 8
    return made


def delete(cls: type) -> None:
    del one(cls).x


def unpickled(cls: type) -> Any:
    made = object.__new__(cls)
    made.__dict__.update(vars(one(cls)))
    return repr(made), made == copy.copy(made)


QUESTIONS: dict[str, Callable[[type], Any]] = {
    "repr": lambda cls: repr(one(cls)).replace("<locals>", ""),
    "positional": lambda cls: repr(cls(1, 3)),
    "too few": lambda cls: cls(y=1),
    "too many": lambda cls: cls(1, 2, 3, 4, 5, 6),
    "unknown": lambda cls: cls(1, z=3),
    "below": lambda cls: repr(cls(-1)),
    "equal": lambda cls: (one(cls) == one(cls), one(cls) != one(cls), one(cls) == 1),
    "other": lambda cls: cls(1) == cls(2),
    "of a subclass": lambda cls: type("Sub", (cls,), {})(x=1) == one(cls),
    "hash": lambda cls: len({hash(each) for each in [one(cls), one(cls)]}),
    "hash of its fields": lambda cls: hash(cls((1, 2))) == hash(((1, 2), 2)),
    "set": set_field,
    "set another": set_other,
    "set on a subclass": set_on_subclass,
    "delete": delete,
    "fields": lambda cls: [
        (f.name, f.type, f.default, f.init, f.repr, f.compare, f.hash)
        for f in dataclasses.fields(cls)
    ],
    "match": lambda cls: cls.__match_args__,
    "replace": lambda cls: repr(dataclasses.replace(one(cls), x=9)),
    "as dict": lambda cls: dataclasses.asdict(one(cls)),
    "parameters": lambda cls: str(cls.__dataclass_params__),
    "signature": lambda cls: str(inspect.signature(cls)),
    "annotations": lambda cls: cls.__init__.__annotations__,
    "names": lambda cls: (cls.__init__.__name__, cls.__init__.__module__),
    "copy": lambda cls: repr(copy.deepcopy(one(cls))),
    "not made by init": unpickled,
    "factories": lambda cls: one(cls).names is not one(cls).names,
    "cached": lambda cls: one(cls).sum,
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_answers_are_those_of_the_standard_library(
    shape: Callable[[Decorator], type], question: str
) -> None:
    ours, theirs = shape(light_dataclass.dataclass), shape(dataclasses.dataclass)
    ask = QUESTIONS[question]
    assert str(outcome(ask, ours)) == str(outcome(ask, theirs))


@pytest.mark.parametrize("shape", [plain, factories, generic, own_methods, mutable])
def test_methods_are_made_when_they_are_looked_up(shape: Callable[[Decorator], type]) -> None:
    cls = shape(light_dataclass.dataclass)
    assert not inspect.isfunction(cls.__dict__["__init__"])
    one(cls)
    assert inspect.isfunction(cls.__dict__["__init__"])
    if shape is not own_methods:
        assert not inspect.isfunction(cls.__dict__["__eq__"])
        assert one(cls) == one(cls)
        assert inspect.isfunction(cls.__dict__["__eq__"])


def test_the_standard_library_extends_them_as_its_own() -> None:
    base = plain(light_dataclass.dataclass)

    @dataclasses.dataclass(frozen=True)
    class More(base):  # type: ignore[misc,valid-type]
        z: int = 3

    assert repr(More(1)).endswith("More(x=1, y=2, z=3)")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        More(1).x = 4
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Other", (base,), {}))


@light_dataclass.dataclass(frozen=True)
class Pickled:
    """One that pickle finds by its name."""

    x: int
    names: tuple[str, ...] = ()


def test_instances_are_pickled() -> None:
    made = Pickled(1, ("a",))
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("decorator", [light_dataclass.dataclass, dataclasses.dataclass])
def test_what_is_wrong_with_fields_is_said_when_the_class_is_made(decorator: Decorator) -> None:
    def after_default() -> None:
        @decorator(frozen=True)
        class Point:
            x: int = 1
            y: int

    def mutable_default() -> None:
        @decorator(frozen=True)
        class Point:
            x: list[int] = []  # noqa: RUF012

    def own_setattr() -> None:
        @decorator(frozen=True)
        class Point:
            x: int

            def __setattr__(self, name: str, value: object) -> None: ...

    with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):
        after_default()
    with pytest.raises(ValueError, match="mutable default"):
        mutable_default()
    with pytest.raises(TypeError, match="Cannot overwrite attribute __setattr__"):
        own_setattr()
