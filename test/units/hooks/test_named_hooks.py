"""Hooks that check may be named by the environment.

Covers: hooks/__init__.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe import hooks
from mlir_async_pipe.session.diagnostics import UsageError


@pytest.mark.parametrize("wanted", ["tritn", "numba_cuda_mlir", ""])
def test_only_hooks_that_check_can_be_named(wanted: str) -> None:
    with pytest.raises(UsageError) as error:
        hooks.install_named(f"triton,{wanted}")
    assert error.value.code == "bad-option-value"
    assert hooks.by_environment == []


def test_what_was_meant_is_said() -> None:
    with pytest.raises(UsageError, match="triton"):
        hooks.install_named("tritn")
