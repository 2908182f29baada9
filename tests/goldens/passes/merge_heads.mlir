// before
func.func @main(%0: tensor<2x3x16xi8>) -> (tensor<1x1x3x4xi8>) {
  %1 = "tosa.transpose"(%0) <{perms = array<i32: 1, 0, 2>}> : (tensor<2x3x16xi8>) -> tensor<3x2x16xi8>
  %2 = "tosa.const_shape"() <{values = dense<[1, 1, 3, 32]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %3 = "tosa.reshape"(%1, %2) : (tensor<3x2x16xi8>, !tosa.shape<4>) -> tensor<1x1x3x32xi8>
  %4 = "tosa.const"() <{values = dense<-3> : tensor<4x1x1x32xi8>}> : () -> tensor<4x1x1x32xi8>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %6 = "tosa.const"() <{values = dense<[0, 1, 2, 3]> : tensor<4xi32>}> : () -> tensor<4xi32>
  %7 = "tosa.conv2d"(%3, %4, %6, %5, %5) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x32xi8>, tensor<4x1x1x32xi8>, tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x4xi32>
  %8 = "tosa.const"() <{values = dense<[1717986918]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %9 = "tosa.const"() <{values = dense<[34]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %10 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %11 = "tosa.rescale"(%7, %8, %9, %10, %5) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x4xi8>
  return %11 : tensor<1x1x3x4xi8>
}

// after
func.func @main(%0: tensor<2x3x16xi8>) -> (tensor<1x1x3x4xi8>) {
  %1 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const"() <{values = dense<[0, 1, 2, 3]> : tensor<4xi32>}> : () -> tensor<4xi32>
  %3 = "tosa.const_shape"() <{values = dense<[1, 2, 3, 16]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %4 = "tosa.reshape"(%0, %3) : (tensor<2x3x16xi8>, !tosa.shape<4>) -> tensor<1x2x3x16xi8>
  %5 = "tosa.const"() <{values = dense<-3> : tensor<4x2x1x16xi8>}> : () -> tensor<4x2x1x16xi8>
  %6 = "tosa.conv2d"(%4, %5, %2, %1, %1) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x2x3x16xi8>, tensor<4x2x1x16xi8>, tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x4xi32>
  %7 = "tosa.const"() <{values = dense<[1717986918]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.const"() <{values = dense<[34]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %9 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %10 = "tosa.rescale"(%6, %7, %8, %9, %1) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x4xi8>
  return %10 : tensor<1x1x3x4xi8>
}
