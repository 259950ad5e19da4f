"""A library of an extra is imported, or what brings it is told.

Covers: session/plugins.py
"""

from __future__ import annotations

import json

import pytest

from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.plugins import library


def test_an_installed_library_is_imported():
    assert library("json", extra="none", wanted_by="this test") is json


def test_a_missing_library_is_reported_with_what_brings_it():
    with pytest.raises(UsageError) as caught:
        library("no_such_library.part", extra="tune", wanted_by="a table")
    assert caught.value.code == "missing-extra"
    assert "a table needs the library no_such_library, which" in str(caught.value)
    assert "pip install '.[tune]'" in str(caught.value)
