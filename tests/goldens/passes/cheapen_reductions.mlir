// before
func.func @main(%0: tensor<1x4x8xi8>) -> (tensor<1x4x1xi8>, tensor<1x1x8xi32>) {
  %1 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.rescale"(%0, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4x8xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x4x8xi32>
  %6 = "tosa.reduce_sum"(%5) <{axis = 0 : i32}> : (tensor<1x4x8xi32>) -> tensor<1x4x8xi32>
  %7 = "tosa.reduce_sum"(%6) <{axis = 1 : i32}> : (tensor<1x4x8xi32>) -> tensor<1x1x8xi32>
  %8 = "tosa.reduce_max"(%0) <{axis = 2 : i32, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x4x8xi8>) -> tensor<1x4x1xi8>
  return %8, %7 : tensor<1x4x1xi8>, tensor<1x1x8xi32>
}

// after
func.func @main(%0: tensor<1x4x8xi8>) -> (tensor<1x4x1xi8>, tensor<1x1x8xi32>) {
  %1 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.rescale"(%0, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4x8xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x4x8xi32>
  %6 = "tosa.const_shape"() <{values = dense<[4, 8]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %7 = "tosa.reshape"(%5, %6) : (tensor<1x4x8xi32>, !tosa.shape<2>) -> tensor<4x8xi32>
  %8 = "tosa.reduce_sum"(%7) <{axis = 0 : i32}> : (tensor<4x8xi32>) -> tensor<1x8xi32>
  %9 = "tosa.const_shape"() <{values = dense<[1, 1, 8]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %10 = "tosa.reshape"(%8, %9) : (tensor<1x8xi32>, !tosa.shape<3>) -> tensor<1x1x8xi32>
  %11 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x4x8xi8>) -> tensor<1x8x4xi8>
  %12 = "tosa.reduce_max"(%11) <{axis = 1 : i32, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x8x4xi8>) -> tensor<1x1x4xi8>
  %13 = "tosa.const_shape"() <{values = dense<[1, 4, 1]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %14 = "tosa.reshape"(%12, %13) : (tensor<1x1x4xi8>, !tosa.shape<3>) -> tensor<1x4x1xi8>
  return %14, %10 : tensor<1x4x1xi8>, tensor<1x1x8xi32>
}
