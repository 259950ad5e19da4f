"""The process `async-pipe-opt`: exit code 0, or 1 if an error was said or anything failed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mlir_async_pipe import bindings
from mlir_async_pipe.diagnostics import AsyncPipeError, UsageError
from mlir_async_pipe.targets import Target
from mlir_async_pipe.tool import inputs, output
from mlir_async_pipe.tool import options as command_line
from mlir_async_pipe.tool.options import Options
from mlir_async_pipe.tool.sink import Sink


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool with `arguments` (those of the process by default); returns the exit code."""
    sink = Sink("text")
    try:
        options = command_line.parse(sys.argv[1:] if arguments is None else arguments)
        sink = Sink(options.diagnostics)
        _run(options, sink)
    except AsyncPipeError as error:
        sink.take(error.diagnostic)
    sink.finish()
    return 1 if sink.failed else 0


def _run(options: Options, sink: Sink) -> None:
    # This process is ours alone, so the DSL around the bindings need not be imported.
    bindings.allow_stub_parents()
    if options.bindings is not None:
        bindings.use(options.bindings, stub_parents=True)
    target = None if options.target is None else Target.parse(options.target)
    if options.emit != "mlir" and target is None:
        raise UsageError(
            f"'--emit={options.emit}' needs '--target'",
            code="missing-target",
            advice="for instance --target=nvvm:sm_80",
        )
    if options.pass_pipeline is not None:
        sink.knows_pipeline(options.pass_pipeline)
    _transform(options, target, sink)


def _transform(options: Options, target: Target | None, sink: Sink) -> None:
    output.check_writable(options.output)
    whole = inputs.read(options.input)
    sink.knows_input(whole)
    # This imports the bindings, which have to be chosen first and cost most of the start.
    from mlir_async_pipe.tool.process import process

    outcomes = [
        process(source, options, target, sink)
        for source in inputs.split(whole, options.split_input_file)
    ]
    contents = [outcome.content for outcome in outcomes if outcome.content is not None]
    if contents and not sink.failed:
        separator = f"{options.output_split_marker}\n".encode()
        output.write(options.output, separator.join(contents))


if __name__ == "__main__":
    sys.exit(main())
