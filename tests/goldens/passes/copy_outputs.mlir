// before
func.func @main(%0: tensor<1x3x4x4xi8>) -> (tensor<1x3x4x4xi8>, tensor<1x16x3xi8>) {
  %1 = "tosa.clamp"(%0) <{max_val = 3 : i8, min_val = -3 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xi8>
  %2 = "tosa.const_shape"() <{values = dense<[1, 3, 16]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %3 = "tosa.reshape"(%1, %2) : (tensor<1x3x4x4xi8>, !tosa.shape<3>) -> tensor<1x3x16xi8>
  %4 = "tosa.transpose"(%3) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x3x16xi8>) -> tensor<1x16x3xi8>
  return %1, %4 : tensor<1x3x4x4xi8>, tensor<1x16x3xi8>
}

// after
func.func @main(%0: tensor<1x3x4x4xi8>) -> (tensor<1x3x4x4xi8>, tensor<1x16x3xi8>) {
  %1 = "tosa.clamp"(%0) <{max_val = 3 : i8, min_val = -3 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xi8>
  %2 = "tosa.const_shape"() <{values = dense<[1, 3, 16]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %3 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %4 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %6 = "tosa.rescale"(%1, %3, %4, %5, %5) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x4x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x4x4xi8>
  %7 = "tosa.reshape"(%6, %2) : (tensor<1x3x4x4xi8>, !tosa.shape<3>) -> tensor<1x3x16xi8>
  %8 = "tosa.transpose"(%7) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x3x16xi8>) -> tensor<1x16x3xi8>
  return %1, %8 : tensor<1x3x4x4xi8>, tensor<1x16x3xi8>
}
