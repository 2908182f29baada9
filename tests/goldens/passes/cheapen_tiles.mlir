// before
func.func @main(%0: tensor<1x4xi8>) -> (tensor<16x4xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[16, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %2 = "tosa.tile"(%0, %1) : (tensor<1x4xi8>, !tosa.shape<2>) -> tensor<16x4xi8>
  return %2 : tensor<16x4xi8>
}

// after
func.func @main(%0: tensor<1x4xi8>) -> (tensor<16x4xi8>) {
  %1 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const"() <{values = dense<[[[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]], [[[1]]]]> : tensor<16x1x1x1xi8>}> : () -> tensor<16x1x1x1xi8>
  %3 = "tosa.const_shape"() <{values = dense<[1, 1, 4, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %4 = "tosa.reshape"(%0, %3) : (tensor<1x4xi8>, !tosa.shape<4>) -> tensor<1x1x4x1xi8>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %6 = "tosa.conv2d"(%4, %2, %5, %1, %1) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x4x1xi8>, tensor<16x1x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x4x16xi32>
  %7 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %9 = "tosa.rescale"(%6, %7, %8, %5, %1) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x4x16xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x4x16xi8>
  %10 = "tosa.const_shape"() <{values = dense<[1, 4, 16]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %11 = "tosa.reshape"(%9, %10) : (tensor<1x1x4x16xi8>, !tosa.shape<3>) -> tensor<1x4x16xi8>
  %12 = "tosa.transpose"(%11) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x4x16xi8>) -> tensor<1x16x4xi8>
  %13 = "tosa.const_shape"() <{values = dense<[16, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %14 = "tosa.reshape"(%12, %13) : (tensor<1x16x4xi8>, !tosa.shape<2>) -> tensor<16x4xi8>
  %15 = "tosa.reshape"(%14, %13) : (tensor<16x4xi8>, !tosa.shape<2>) -> tensor<16x4xi8>
  return %15 : tensor<16x4xi8>
}
