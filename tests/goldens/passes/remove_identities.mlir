// before
func.func @main(%0: tensor<4x1xi8>) -> (tensor<4x1xi32>, tensor<4x1xi8>) {
  %1 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.rescale"(%0, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<4x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<4x1xi32>
  %6 = "tosa.abs"(%5) : (tensor<4x1xi32>) -> tensor<4x1xi32>
  %7 = "tosa.identity"(%6) : (tensor<4x1xi32>) -> tensor<4x1xi32>
  %8 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %9 = "tosa.pad"(%7, %8, %4) : (tensor<4x1xi32>, !tosa.shape<4>, tensor<1xi32>) -> tensor<4x1xi32>
  %10 = "tosa.const_shape"() <{values = dense<[1, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %11 = "tosa.tile"(%9, %10) : (tensor<4x1xi32>, !tosa.shape<2>) -> tensor<4x1xi32>
  %12 = "tosa.reduce_sum"(%11) <{axis = 1 : i32}> : (tensor<4x1xi32>) -> tensor<4x1xi32>
  %13 = "tosa.reverse"(%12) <{axis = 1 : i32}> : (tensor<4x1xi32>) -> tensor<4x1xi32>
  %14 = "tosa.identity"(%0) : (tensor<4x1xi8>) -> tensor<4x1xi8>
  return %13, %14 : tensor<4x1xi32>, tensor<4x1xi8>
}

// after
func.func @main(%0: tensor<4x1xi8>) -> (tensor<4x1xi32>, tensor<4x1xi8>) {
  %1 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.rescale"(%0, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<4x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<4x1xi32>
  %6 = "tosa.abs"(%5) : (tensor<4x1xi32>) -> tensor<4x1xi32>
  %7 = "tosa.identity"(%0) : (tensor<4x1xi8>) -> tensor<4x1xi8>
  return %6, %7 : tensor<4x1xi32>, tensor<4x1xi8>
}
