"""Prints IR: the result, and dumps before and after passes."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import parent, symbol_name, walk
from mlir_async_pipe.tool.command_line import Options
from mlir_async_pipe.tool.pass_steps import Instrument, Step, selected


def print_ir(root: Any, options: Options) -> str:
    """The text of `root` in the form that the flags ask for, with a newline at its end. IR that does not verify is
    printed in generic form, as MLIR does it."""
    op = root.operation
    # Older stacks do not have this option.
    prefixes = {}
    if options.mlir_print_unique_ssa_ids:
        op, prefixes = _uniquely_named(op), {"use_name_loc_as_prefix": True}
    elif options.mlir_use_nameloc_as_prefix:
        prefixes = {"use_name_loc_as_prefix": True}
    text = op.get_asm(
        large_elements_limit=options.mlir_elide_elementsattrs_if_larger,
        enable_debug_info=options.mlir_print_debuginfo or options.mlir_pretty_debuginfo,
        pretty_debug_info=options.mlir_pretty_debuginfo,
        print_generic_op_form=options.mlir_print_op_generic,
        use_local_scope=options.mlir_print_local_scope,
        **prefixes,
    )
    return str(text).rstrip("\n") + "\n"


def _uniquely_named(op: Any) -> Any:
    """A copy whose values have numbers of their own, as the names of their locations."""
    copy = op.clone(ip=False).operation
    number = itertools.count()
    for inner in walk(copy):
        inner.location = _numbered(next(number), inner.location)
        for block in (block for region in inner.regions for block in region.blocks):
            for argument in block.arguments:
                argument.set_location(_numbered(next(number), argument.location))
    return copy


def _numbered(number: int, location: Any) -> Any:
    return ir.Location.name(f"v{number}", location, context=location.context)


class DumpIr(Instrument):
    """Dumps IR to stderr around the steps that the flags name. Steps must be single passes. `after_change` keeps
    the text before a step, which costs one print more, and dumps only what differs."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._earlier = ""

    def before(self, step: Step, root: Any) -> None:
        options = self._options
        if options.mlir_print_ir_before_all or step.name in options.mlir_print_ir_before:
            self._dump("Before", step, root)
        if options.mlir_print_ir_after_change:
            self._earlier = print_ir(root, options)

    def after(self, step: Step, root: Any) -> None:
        options = self._options
        if not self._is_selected(step) or options.mlir_print_ir_after_failure:
            return
        if options.mlir_print_ir_after_change and self._earlier == print_ir(root, options):
            return
        self._dump("After", step, root)

    def failed(self, step: Step, root: Any) -> None:
        if self._is_selected(step):
            self._dump("After", step, root, " Failed")

    def _is_selected(self, step: Step) -> bool:
        """Whether a dump after this step may be wanted; without names, all steps are."""
        options = self._options
        if options.mlir_print_ir_after_all or step.name in options.mlir_print_ir_after:
            return True
        only_outcome = options.mlir_print_ir_after_change or options.mlir_print_ir_after_failure
        return only_outcome and not options.mlir_print_ir_after

    def _dump(self, when: str, step: Step, root: Any, outcome: str = "") -> None:
        whole = self._options.mlir_print_ir_module_scope
        for op in selected(root, step.anchors):
            what = ""
            if parent(op) is not None:
                name = symbol_name(op)
                what = f" ('{op.name}' operation{': @' + name if name else ''})"
            text = print_ir(root if whole else op, self._options)
            head = f"// -----// IR Dump {when} {step.name}{outcome}{what} //----- //"
            sys.stderr.write(f"{head}\n{text}\n")
        sys.stderr.flush()
