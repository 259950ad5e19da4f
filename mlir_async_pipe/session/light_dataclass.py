"""Dataclasses whose methods are compiled when they are first called.

    from mlir_async_pipe.session.light_dataclass import dataclass

    @dataclass(frozen=True)
    class Place: …

The standard library compiles six methods for each class as it is made, 0.3 milliseconds for one of four
fields: a sixth of a short run, since most classes of a run use two of them or none. Here it reads the
fields only, which takes 0.02; a method that is looked up compiles itself, and then is what the standard
library would have made. Whatever is asked for beside `frozen` and `eq`, or is uncommon (methods of its
own, fields by keyword only, dataclasses as bases), is left to the standard library.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: Any = None, /, **options: bool) -> Any:
        """The decorator `dataclasses.dataclass`."""
        if cls is None:
            return lambda cls: _made(cls, options)
        return _made(cls, options)


class _Factory:
    """Stands in signatures for a default that a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_OWN = ("__init__", "__setattr__", "__delattr__")


def _made(cls: type, options: dict[str, bool]) -> type:
    if not options.keys() <= {"frozen", "eq"} or not _is_common(cls):
        return dataclasses.dataclass(**options)(cls)
    frozen, eq = options.get("frozen", False), options.get("eq", True)
    # Without a docstring the standard library would write the signature of a method to come.
    cls.__doc__ = cls.__doc__ or cls.__name__
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    _check_order(cls)
    asked: Any = cls.__dict__["__dataclass_params__"]
    asked.init = asked.repr = True
    asked.frozen, asked.eq = frozen, eq
    methods = {"__init__": _init, "__repr__": _repr}
    if eq:
        methods["__eq__"] = _eq
    if eq and frozen:
        methods["__hash__"] = _hash
    for name, make in methods.items():
        # Of a class with an `__eq__` of its own Python has set `__hash__` to None.
        if cls.__dict__.get(name) is None:
            setattr(cls, name, _Later(cls, name, make))
    if frozen:
        _freeze(cls)
    elif eq:
        cls.__hash__ = None  # type: ignore[assignment]
    return cls


def _is_common(cls: type) -> bool:
    """Whether this module knows all that the class asks for."""
    own = cls.__dict__
    texts = [str(kind) for kind in own.get("__annotations__", {}).values()]
    return (
        not hasattr(cls, "__dataclass_fields__")
        and not any(name in own for name in _OWN)
        and own.get("__hash__") is None
        and "self" not in own.get("__annotations__", {})
        and not any("InitVar" in text or "KW_ONLY" in text for text in texts)
        and not any(isinstance(entry, Field) and entry.kw_only is True for entry in own.values())
    )


def _check_order(cls: Any) -> None:
    """Raise TypeError for a field without a default after one that has one."""
    optional = False
    for field in _given(cls):
        if not _is_optional(field) and optional:
            raise TypeError(f"non-default argument {field.name!r} follows default argument")
        optional = optional or _is_optional(field)


def _given(cls: Any) -> Iterator[Field[Any]]:
    return (field for field in dataclasses.fields(cls) if field.init)


def _is_optional(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


class _Later:
    """A method that is compiled when it is looked up, and then stands in its own place."""

    __slots__ = ("cls", "make", "name")

    def __init__(self, cls: type, name: str, make: Callable[[Any], Any]) -> None:
        self.cls, self.name, self.make = cls, name, make

    def __get__(self, instance: Any, owner: type) -> Any:
        function = self.make(self.cls)
        function.__name__, function.__module__ = self.name, self.cls.__module__
        function.__qualname__ = f"{self.cls.__qualname__}.{self.name}"
        setattr(self.cls, self.name, function)
        return function.__get__(instance, owner)


def _init(cls: Any) -> Any:
    """def __init__(self, a, b=<default>, c=<factory>): set each, then call `__post_init__`."""
    frozen = cls.__dataclass_params__.frozen
    parameters, lines = ["self"], []
    known: dict[str, Any] = {"__set": object.__setattr__, "__missing": _FACTORY}
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        known[f"__default_{name}"] = field.default
        known[f"__factory_{name}"] = field.default_factory
        made = field.default_factory is not MISSING
        if field.init and made:
            parameters.append(f"{name}=__missing")
            value = f"__factory_{name}() if {name} is __missing else {name}"
        elif field.init:
            optional = field.default is not MISSING
            parameters.append(f"{name}=__default_{name}" if optional else name)
        elif made:
            value = f"__factory_{name}()"
        else:
            continue
        lines.append(f"__set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    function = _compiled(", ".join(parameters), lines or ["pass"], known)
    types = {field.name: field.type for field in _given(cls)}
    function.__annotations__ = {**types, "return": None}
    return function


def _eq(cls: Any) -> Any:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    mine, theirs = (_tuple_of(which, names) for which in ("self", "other"))
    lines = [f"if other.__class__ is self.__class__: return {mine} == {theirs}"]
    return _compiled("self, other", [*lines, "return NotImplemented"], {})


def _hash(cls: Any) -> Any:
    counts = [(f.name, f.compare if f.hash is None else f.hash) for f in dataclasses.fields(cls)]
    names = [name for name, counted in counts if counted]
    return _compiled("self", [f"return hash({_tuple_of('self', names)})"], {})


def _repr(cls: Any) -> Any:
    names = [field.name for field in dataclasses.fields(cls) if field.repr]

    @reprlib.recursive_repr()
    def told(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return told


def _tuple_of(which: str, names: list[str]) -> str:
    return f"({''.join(f'{which}.{name}, ' for name in names)})"


def _compiled(parameters: str, lines: list[str], known: dict[str, Any]) -> Any:
    """A function of these lines. Its text is of names of fields only, which are identifiers."""
    body = "\n ".join(lines)
    exec(f"def made({parameters}):\n {body}", known)
    return known["made"]


def _freeze(cls: Any) -> None:
    """Refuse to set and to delete: any attribute of the class itself, and the fields of a subclass."""
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
