// before
func.func @main(%0: tensor<1x2x2x2xi8>) -> (tensor<1x4x4x1xi8>) {
  %1 = "tosa.const"() <{values = dense<[[[[0, 1]]], [[[2, 3]]], [[[4, 5]]], [[[6, 7]]]]> : tensor<4x1x1x2xi8>}> : () -> tensor<4x1x1x2xi8>
  %2 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[0, 1, 2, 3]> : tensor<4xi32>}> : () -> tensor<4xi32>
  %4 = "tosa.conv2d"(%0, %1, %3, %2, %2) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x2x2x2xi8>, tensor<4x1x1x2xi8>, tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x4xi32>
  %5 = "tosa.const"() <{values = dense<[1717986918, 1717986918, 1288490189, 1717986918]> : tensor<4xi32>}> : () -> tensor<4xi32>
  %6 = "tosa.const"() <{values = dense<[34, 33, 32, 32]> : tensor<4xi8>}> : () -> tensor<4xi8>
  %7 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.rescale"(%4, %5, %6, %7, %2) <{input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2x4xi32>, tensor<4xi32>, tensor<4xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2x4xi8>
  %9 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 1, 2, 2]> : tensor<6xindex>}> : () -> !tosa.shape<6>
  %10 = "tosa.reshape"(%8, %9) : (tensor<1x2x2x4xi8>, !tosa.shape<6>) -> tensor<1x2x2x1x2x2xi8>
  %11 = "tosa.transpose"(%10) <{perms = array<i32: 0, 1, 4, 2, 5, 3>}> : (tensor<1x2x2x1x2x2xi8>) -> tensor<1x2x2x2x2x1xi8>
  %12 = "tosa.const_shape"() <{values = dense<[1, 4, 4, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %13 = "tosa.reshape"(%11, %12) : (tensor<1x2x2x2x2x1xi8>, !tosa.shape<4>) -> tensor<1x4x4x1xi8>
  return %13 : tensor<1x4x4x1xi8>
}

// after
func.func @main(%0: tensor<1x2x2x2xi8>) -> (tensor<1x4x4x1xi8>) {
  %1 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %3 = "tosa.const_shape"() <{values = dense<[1, 4, 4, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %4 = "tosa.const"() <{values = dense<[[[[0, 1]]], [[[2, 3]]]]> : tensor<2x1x1x2xi8>}> : () -> tensor<2x1x1x2xi8>
  %5 = "tosa.const"() <{values = dense<[0, 1]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %6 = "tosa.conv2d"(%0, %4, %5, %1, %1) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x2x2x2xi8>, tensor<2x1x1x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x2xi32>
  %7 = "tosa.const"() <{values = dense<[1717986918, 1717986918]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %8 = "tosa.const"() <{values = dense<[34, 33]> : tensor<2xi8>}> : () -> tensor<2xi8>
  %9 = "tosa.rescale"(%6, %7, %8, %2, %1) <{input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2x2xi32>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2x2xi8>
  %10 = "tosa.const"() <{values = dense<[[[[4, 5]]], [[[6, 7]]]]> : tensor<2x1x1x2xi8>}> : () -> tensor<2x1x1x2xi8>
  %11 = "tosa.const"() <{values = dense<[2, 3]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %12 = "tosa.conv2d"(%0, %10, %11, %1, %1) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x2x2x2xi8>, tensor<2x1x1x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x2xi32>
  %13 = "tosa.const"() <{values = dense<[1288490189, 1717986918]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %14 = "tosa.const"() <{values = dense<[32, 32]> : tensor<2xi8>}> : () -> tensor<2xi8>
  %15 = "tosa.rescale"(%12, %13, %14, %2, %1) <{input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2x2xi32>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2x2xi8>
  %16 = "tosa.concat"(%9, %15) <{axis = 2 : i32}> : (tensor<1x2x2x2xi8>, tensor<1x2x2x2xi8>) -> tensor<1x2x4x2xi8>
  %17 = "tosa.reshape"(%16, %3) : (tensor<1x2x4x2xi8>, !tosa.shape<4>) -> tensor<1x4x4x1xi8>
  return %17 : tensor<1x4x4x1xi8>
}
