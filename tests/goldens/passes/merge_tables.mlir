// before
func.func @main(%0: tensor<4xi8>) -> (tensor<4xi8>) {
  %1 = "tosa.const"() <{values = dense<127> : tensor<256xi8>}> : () -> tensor<256xi8>
  %2 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %3 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[1]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %6 = "tosa.rescale"(%0, %2, %3, %4, %5) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  %7 = "tosa.table"(%6, %1) : (tensor<4xi8>, tensor<256xi8>) -> tensor<4xi8>
  %8 = "tosa.clamp"(%7) <{max_val = 5 : i8, min_val = -5 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4xi8>) -> tensor<4xi8>
  return %8 : tensor<4xi8>
}

// after
func.func @main(%0: tensor<4xi8>) -> (tensor<4xi8>) {
  %1 = "tosa.const"() <{values = dense<5> : tensor<256xi8>}> : () -> tensor<256xi8>
  %2 = "tosa.table"(%0, %1) : (tensor<4xi8>, tensor<256xi8>) -> tensor<4xi8>
  return %2 : tensor<4xi8>
}
