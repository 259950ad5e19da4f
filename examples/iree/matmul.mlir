// C = A B, half precision with sums in single precision: one dispatch of one (AMD) or two
// (NVIDIA) workgroups, 8 tiles of 128 along k.
func.func @matmul(%a: tensor<64x1024xf16>, %b: tensor<1024x64xf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = linalg.matmul ins(%a, %b : tensor<64x1024xf16>, tensor<1024x64xf16>) outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}
