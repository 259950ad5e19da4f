"""Loads the library of the bindings in a thread, while Python imports what does not need it.

    load_ahead()                     dlopen, without Python's lock: 46 milliseconds (docs/speed.md)
    import numpy                     30 at the same time
    from …bindings import ir         finds it loaded, or waits for the rest

Only for a process that owns itself and forks no more: what a thread does is lost in a fork.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

from mlir_async_pipe.bindings import stack


def load_ahead() -> None:
    """Begin to load the library of the chosen bindings, where that is known how."""
    library = _library(stack.library_folder(stack.current()))
    if library is None or not sys.platform.startswith("linux"):
        return
    # ctypes gives Python's lock away in calls, not while it loads a library itself.
    load = ctypes.CDLL(None).dlopen
    load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    given = (os.fsencode(library), os.RTLD_NOW)
    threading.Thread(target=load, args=given, daemon=True).start()


def _library(folder: str | None) -> Path | None:
    """What the modules of the bindings are linked with: MLIR's C interface, the largest of its files."""
    found = Path(folder).glob("lib*CAPI*.so") if folder is not None else ()
    return max(found, key=lambda file: file.stat().st_size, default=None)
