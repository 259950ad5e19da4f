// A 3x3 convolution of a 16x16 image (18x18 with its border), 64 channels in and out.
func.func @conv(%image: tensor<1x18x18x64xf16>, %filter: tensor<3x3x64x64xf16>) -> tensor<1x16x16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x16x16x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32>
  %c = linalg.conv_2d_nhwc_hwcf ins(%image, %filter : tensor<1x18x18x64xf16>, tensor<3x3x64x64xf16>) outs(%init : tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32>
  return %c : tensor<1x16x16x64xf32>
}
