// before
func.func @main(%0: tensor<2x3x4xi8>) -> (tensor<2x3x4xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[6, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %2 = "tosa.reshape"(%0, %1) : (tensor<2x3x4xi8>, !tosa.shape<2>) -> tensor<6x4xi8>
  %3 = "tosa.clamp"(%2) <{max_val = 3 : i8, min_val = -3 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<6x4xi8>) -> tensor<6x4xi8>
  %4 = "tosa.const_shape"() <{values = dense<[2, 3, 4]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %5 = "tosa.reshape"(%3, %4) : (tensor<6x4xi8>, !tosa.shape<3>) -> tensor<2x3x4xi8>
  return %5 : tensor<2x3x4xi8>
}

// after
func.func @main(%0: tensor<2x3x4xi8>) -> (tensor<2x3x4xi8>) {
  %1 = "tosa.clamp"(%0) <{max_val = 3 : i8, min_val = -3 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<2x3x4xi8>) -> tensor<2x3x4xi8>
  return %1 : tensor<2x3x4xi8>
}
