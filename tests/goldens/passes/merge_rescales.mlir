// before
func.func @main(%0: tensor<1x2x4x4xi32>) -> (tensor<1x2x16xi8>) {
  %1 = "tosa.const"() <{values = dense<[1374389535]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const"() <{values = dense<[37]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %4 = "tosa.const"() <{values = dense<[-3]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.rescale"(%0, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x4x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x4x4xi8>
  %6 = "tosa.clamp"(%5) <{max_val = 60 : i8, min_val = -3 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8>
  %7 = "tosa.const_shape"() <{values = dense<[1, 2, 16]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %8 = "tosa.reshape"(%6, %7) : (tensor<1x2x4x4xi8>, !tosa.shape<3>) -> tensor<1x2x16xi8>
  %9 = "tosa.const"() <{values = dense<[1610612736]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %10 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %11 = "tosa.const"() <{values = dense<[5]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %12 = "tosa.rescale"(%8, %9, %10, %4, %11) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x16xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x16xi8>
  return %12 : tensor<1x2x16xi8>
}

// after
func.func @main(%0: tensor<1x2x4x4xi32>) -> (tensor<1x2x16xi8>) {
  %1 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const_shape"() <{values = dense<[1, 2, 16]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %3 = "tosa.const"() <{values = dense<[5]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[2061584302]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.const"() <{values = dense<[38]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %6 = "tosa.rescale"(%0, %4, %5, %1, %3) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x4x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x4x4xi8>
  %7 = "tosa.clamp"(%6) <{max_val = 103 : i8, min_val = -89 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8>
  %8 = "tosa.clamp"(%7) <{max_val = 52 : i8, min_val = 5 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8>
  %9 = "tosa.reshape"(%8, %2) : (tensor<1x2x4x4xi8>, !tosa.shape<3>) -> tensor<1x2x16xi8>
  return %9 : tensor<1x2x16xi8>
}
