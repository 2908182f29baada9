// before
func.func @main(%0: tensor<2x3x4xi8>) -> (tensor<1x2x12xi8>) {
  %1 = "tosa.transpose"(%0) <{perms = array<i32: 2, 0, 1>}> : (tensor<2x3x4xi8>) -> tensor<4x2x3xi8>
  %2 = "tosa.clamp"(%1) <{max_val = 3 : i8, min_val = -3 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4x2x3xi8>) -> tensor<4x2x3xi8>
  %3 = "tosa.transpose"(%2) <{perms = array<i32: 1, 2, 0>}> : (tensor<4x2x3xi8>) -> tensor<2x3x4xi8>
  %4 = "tosa.const_shape"() <{values = dense<[2, 1, 12]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %5 = "tosa.reshape"(%3, %4) : (tensor<2x3x4xi8>, !tosa.shape<3>) -> tensor<2x1x12xi8>
  %6 = "tosa.transpose"(%5) <{perms = array<i32: 1, 0, 2>}> : (tensor<2x1x12xi8>) -> tensor<1x2x12xi8>
  return %6 : tensor<1x2x12xi8>
}

// after
func.func @main(%0: tensor<2x3x4xi8>) -> (tensor<1x2x12xi8>) {
  %1 = "tosa.clamp"(%0) <{max_val = 3 : i8, min_val = -3 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<2x3x4xi8>) -> tensor<2x3x4xi8>
  %2 = "tosa.const_shape"() <{values = dense<[2, 1, 12]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %3 = "tosa.reshape"(%1, %2) : (tensor<2x3x4xi8>, !tosa.shape<3>) -> tensor<2x1x12xi8>
  %4 = "tosa.const_shape"() <{values = dense<[1, 2, 12]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %5 = "tosa.reshape"(%3, %4) : (tensor<2x1x12xi8>, !tosa.shape<3>) -> tensor<1x2x12xi8>
  return %5 : tensor<1x2x12xi8>
}
