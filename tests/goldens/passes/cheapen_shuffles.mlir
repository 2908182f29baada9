// before
func.func @main(%0: tensor<1x2x2x4xi8>) -> (tensor<1x2x2x4xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[4, 2, 2]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x2x2x4xi8>, !tosa.shape<3>) -> tensor<4x2x2xi8>
  %3 = "tosa.transpose"(%2) <{perms = array<i32: 0, 2, 1>}> : (tensor<4x2x2xi8>) -> tensor<4x2x2xi8>
  %4 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 4]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %5 = "tosa.reshape"(%3, %4) : (tensor<4x2x2xi8>, !tosa.shape<4>) -> tensor<1x2x2x4xi8>
  return %5 : tensor<1x2x2x4xi8>
}

// after
func.func @main(%0: tensor<1x2x2x4xi8>) -> (tensor<1x2x2x4xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 4]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %2 = "tosa.const"() <{values = dense<[0, 0, 0, 0]> : tensor<4xi32>}> : () -> tensor<4xi32>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[[[[1, 0, 0, 0]]], [[[0, 0, 1, 0]]], [[[0, 1, 0, 0]]], [[[0, 0, 0, 1]]]]> : tensor<4x1x1x4xi8>}> : () -> tensor<4x1x1x4xi8>
  %5 = "tosa.conv2d"(%0, %4, %2, %3, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x2x2x4xi8>, tensor<4x1x1x4xi8>, tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x4xi32>
  %6 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %7 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %9 = "tosa.rescale"(%5, %7, %8, %6, %3) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2x4xi8>
  %10 = "tosa.reshape"(%9, %1) : (tensor<1x2x2x4xi8>, !tosa.shape<4>) -> tensor<1x2x2x4xi8>
  return %10 : tensor<1x2x2x4xi8>
}
