"""What decides how a path goes on, and is not known there: it splits, or begins anew with more known.

n - k >= 1 ?         two paths
n mod 6 ?            six
"""

from __future__ import annotations

from mlir_async_pipe.checker.forms import Atom, Form


class UndecidedError(Exception):
    """Whether `form` is 1 or more decides what comes next, and a path does not know it."""

    def __init__(self, form: Form) -> None:
        super().__init__(str(form))
        self.form = form


class ResiduesError(Exception):
    """The remainder of an unknown by `by` decides what comes next: a path for each is followed."""

    def __init__(self, atom: Atom, by: int) -> None:
        super().__init__(str(atom))
        self.atom, self.by = atom, by


class ModulusError(Exception):
    """The numbers of loops must be known modulo `modulus`, which is more than is kept of them."""

    def __init__(self, modulus: int) -> None:
        super().__init__(str(modulus))
        self.modulus = modulus
