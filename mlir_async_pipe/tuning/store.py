"""What candidates came to, kept in an SQLite file, so that a search goes on where it ended.

One row a candidate, by the hash of all that its figures depend on: the module's text, target,
options, inputs, and the version of this package and of the bindings.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.tuning.outcome import Outcome

_TABLE = """
CREATE TABLE IF NOT EXISTS outcomes (
  key TEXT PRIMARY KEY, figures TEXT NOT NULL, text TEXT NOT NULL, binary BLOB NOT NULL
)"""


class Store:
    """The outcomes in the file at `path`; in memory without one."""

    def __init__(self, path: str | Path | None) -> None:
        """Raises UsageError (bad-store) for a file that is no SQLite database of ours."""
        self._path = path
        with self._said():
            self._connection = sqlite3.connect(":memory:" if path is None else path, timeout=60)
            self._connection.execute(_TABLE)
            self._connection.execute("SELECT key, figures, text, binary FROM outcomes LIMIT 1")

    def get(self, key: str) -> Outcome | None:
        """What was kept under `key`."""
        with self._said():
            row = self._connection.execute(
                "SELECT figures, text, binary FROM outcomes WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Outcome(**json.loads(row[0]), text=row[1], binary=row[2])

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep `outcome` under `key`; it is on disk when this returns."""
        fields = asdict(outcome)
        text, binary = fields.pop("text"), fields.pop("binary")
        row = (key, json.dumps(fields, default=str), text, binary)
        with self._said(), self._connection:
            self._connection.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise UsageError(
                f"'{self._path}' cannot keep results: {error}",
                code="bad-store",
                advice="name a file that is new, or one of an earlier search",
            ) from error
