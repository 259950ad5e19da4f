"""Writes results so that a file is either complete or untouched.

The text goes to a temporary file beside the target, which is then renamed over it; on any
error the target keeps what it had.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile

from mlir_async_pipe.session.diagnostics import Place, UsageError


def check_writable(name: str) -> None:
    """Refuse, before any work is done, an output whose folder is not there or not writable.

    Raises UsageError (cannot-write).
    """
    if name == "-":
        return
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise UsageError(
            f"cannot write the output: no folder '{folder}'", code="cannot-write", at=Place(name)
        )
    if os.path.isdir(name):
        raise UsageError(
            "cannot write the output: it is a folder", code="cannot-write", at=Place(name)
        )
    if not os.access(folder, os.W_OK) or (os.path.exists(name) and not os.access(name, os.W_OK)):
        raise UsageError(
            "cannot write the output: permission denied", code="cannot-write", at=Place(name)
        )


def write(name: str, content: bytes) -> None:
    """Write `content` to a file in one step, or to standard output for "-".

    Devices and pipes (/dev/null) are written to directly. Raises UsageError (cannot-write).
    """
    try:
        if name == "-":
            # What a hook printed stands before it, whether or not the interpreter buffers text.
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        elif os.path.exists(name) and not stat.S_ISREG(os.stat(name).st_mode):
            with open(name, "wb") as device:
                device.write(content)
        else:
            _replace(os.path.realpath(name), content)
    except BrokenPipeError:
        reader_has_gone()
    except OSError as error:
        raise UsageError(
            f"cannot write the output: {error.strerror}", code="cannot-write", at=Place(name)
        ) from None


def reader_has_gone() -> None:
    """The reader (head, less) has seen enough: keep the interpreter's own flush at exit quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _replace(name: str, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(name), prefix=".async-pipe-opt-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, _mode(name))
        os.replace(temporary, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(name: str) -> int:
    """The permissions of the file that is replaced, else those of any new file."""
    if os.path.exists(name):
        return stat.S_IMODE(os.stat(name).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
