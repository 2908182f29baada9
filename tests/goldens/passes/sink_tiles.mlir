// before
func.func @main(%0: tensor<1x4xi8>, %1: tensor<3x4xi32>) -> (tensor<3x4xi32>, tensor<3x4xi32>) {
  %2 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %3 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %6 = "tosa.rescale"(%0, %2, %3, %4, %5) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x4xi32>
  %7 = "tosa.const_shape"() <{values = dense<[3, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %8 = "tosa.tile"(%6, %7) : (tensor<1x4xi32>, !tosa.shape<2>) -> tensor<3x4xi32>
  %9 = "tosa.add"(%8, %1) : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi32>
  %10 = "tosa.abs"(%8) : (tensor<3x4xi32>) -> tensor<3x4xi32>
  return %9, %10 : tensor<3x4xi32>, tensor<3x4xi32>
}

// after
func.func @main(%0: tensor<1x4xi8>, %1: tensor<3x4xi32>) -> (tensor<3x4xi32>, tensor<3x4xi32>) {
  %2 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %3 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %6 = "tosa.rescale"(%0, %2, %3, %4, %5) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x4xi32>
  %7 = "tosa.const_shape"() <{values = dense<[3, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %8 = "tosa.add"(%6, %1) : (tensor<1x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi32>
  %9 = "tosa.abs"(%6) : (tensor<1x4xi32>) -> tensor<1x4xi32>
  %10 = "tosa.tile"(%9, %7) : (tensor<1x4xi32>, !tosa.shape<2>) -> tensor<3x4xi32>
  return %8, %10 : tensor<3x4xi32>, tensor<3x4xi32>
}
