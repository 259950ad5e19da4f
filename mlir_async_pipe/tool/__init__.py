"""The command line tool `async-pipe-opt`: reads IR, runs passes, writes IR or code.

One file a topic: options, inputs (reading and splitting), parsing, pipeline text, running,
diagnostics (rendering and verifying), printing, output. Only `__main__` touches the process.
"""
