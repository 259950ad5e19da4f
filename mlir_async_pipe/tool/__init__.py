"""The command line tool `async-pipe-opt`: reads IR, runs passes, writes IR or code.

One file a topic: flags, inputs (reading, splitting and parsing), pipeline text, running,
diagnostics (rendering and verifying), printing, output. Only `__main__` touches the process.
"""
