// before
func.func @main(%0: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>) {
  %1 = "tosa.clamp"(%0) <{max_val = 20 : i8, min_val = -20 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4xi8>) -> tensor<4xi8>
  %2 = "tosa.clamp"(%1) <{max_val = 99 : i8, min_val = -10 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4xi8>) -> tensor<4xi8>
  %3 = "tosa.clamp"(%0) <{max_val = 127 : i8, min_val = -128 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4xi8>) -> tensor<4xi8>
  return %2, %3 : tensor<4xi8>, tensor<4xi8>
}

// after
func.func @main(%0: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>) {
  %1 = "tosa.clamp"(%0) <{max_val = 20 : i8, min_val = -10 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4xi8>) -> tensor<4xi8>
  return %1, %0 : tensor<4xi8>, tensor<4xi8>
}
