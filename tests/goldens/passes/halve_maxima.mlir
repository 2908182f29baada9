// before
func.func @main(%0: tensor<1x24x63xi8>) -> (tensor<1x24x1xi8>) {
  %1 = "tosa.reduce_max"(%0) <{axis = 2 : i32, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x24x63xi8>) -> tensor<1x24x1xi8>
  return %1 : tensor<1x24x1xi8>
}

// after
func.func @main(%0: tensor<1x24x63xi8>) -> (tensor<1x24x1xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[0, 0, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %2 = "tosa.const_shape"() <{values = dense<[1, 24, 32]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %3 = "tosa.slice"(%0, %1, %2) : (tensor<1x24x63xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x24x32xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %6 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %7 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.rescale"(%3, %5, %6, %4, %7) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x24x32xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x24x32xi32>
  %9 = "tosa.const_shape"() <{values = dense<[0, 0, 31]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %10 = "tosa.slice"(%0, %9, %2) : (tensor<1x24x63xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x24x32xi8>
  %11 = "tosa.rescale"(%10, %5, %6, %4, %7) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x24x32xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x24x32xi32>
  %12 = "tosa.maximum"(%8, %11) <{nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x24x32xi32>, tensor<1x24x32xi32>) -> tensor<1x24x32xi32>
  %13 = "tosa.rescale"(%12, %5, %6, %7, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x24x32xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x24x32xi8>
  %14 = "tosa.reduce_max"(%13) <{axis = 2 : i32, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x24x32xi8>) -> tensor<1x24x1xi8>
  return %14 : tensor<1x24x1xi8>
}
