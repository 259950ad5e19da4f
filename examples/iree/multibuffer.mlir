// What IREE's CUDA pipelines no longer do by themselves: three slots a buffer, and async copies.
// In generic form: the options of these ops are properties, which their own syntax cannot hold.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %buffers = transform.structured.match ops{["memref.alloc"]} in %module
      : (!transform.any_op) -> !transform.op<"memref.alloc">
    %slots = "transform.memref.multibuffer"(%buffers) <{factor = 3 : i64, skip_analysis}>
      : (!transform.op<"memref.alloc">) -> !transform.any_op
    %functions = transform.structured.match ops{["func.func"]} in %module
      : (!transform.any_op) -> !transform.any_op
    "transform.iree.create_async_groups"(%functions) <{use_mma_sync}> : (!transform.any_op) -> ()
    transform.yield
  }
}
