"""The registry of passes under the name that plugins use; see `session.passes`."""

from mlir_async_pipe.session.passes import NoOptions, Pass, find, names, register

__all__ = ["NoOptions", "Pass", "find", "names", "register"]
