// before
func.func @main(%0: tensor<1x3x4096xi8>) -> (tensor<1x4096x3xi8>, tensor<1x3x4096xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[1, 4096, 3]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x3x4096xi8>, !tosa.shape<3>) -> tensor<1x4096x3xi8>
  %3 = "tosa.transpose"(%2) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x4096x3xi8>) -> tensor<1x3x4096xi8>
  %4 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x3x4096xi8>) -> tensor<1x4096x3xi8>
  return %4, %3 : tensor<1x4096x3xi8>, tensor<1x3x4096xi8>
}

// after
func.func @main(%0: tensor<1x3x4096xi8>) -> (tensor<1x4096x3xi8>, tensor<1x3x4096xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[1, 4096, 3]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x3x4096xi8>, !tosa.shape<3>) -> tensor<1x4096x3xi8>
  %3 = "tosa.const_shape"() <{values = dense<[64, 64, 3]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %4 = "tosa.reshape"(%2, %3) : (tensor<1x4096x3xi8>, !tosa.shape<3>) -> tensor<64x64x3xi8>
  %5 = "tosa.transpose"(%4) <{perms = array<i32: 2, 0, 1>}> : (tensor<64x64x3xi8>) -> tensor<3x64x64xi8>
  %6 = "tosa.const_shape"() <{values = dense<[1, 3, 4096]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %7 = "tosa.reshape"(%5, %6) : (tensor<3x64x64xi8>, !tosa.shape<3>) -> tensor<1x3x4096xi8>
  %8 = "tosa.const_shape"() <{values = dense<[3, 64, 64]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %9 = "tosa.reshape"(%0, %8) : (tensor<1x3x4096xi8>, !tosa.shape<3>) -> tensor<3x64x64xi8>
  %10 = "tosa.transpose"(%9) <{perms = array<i32: 1, 2, 0>}> : (tensor<3x64x64xi8>) -> tensor<64x64x3xi8>
  %11 = "tosa.reshape"(%10, %1) : (tensor<64x64x3xi8>, !tosa.shape<3>) -> tensor<1x4096x3xi8>
  return %11, %7 : tensor<1x4096x3xi8>, tensor<1x3x4096xi8>
}
