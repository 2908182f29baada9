// before
func.func @main(%0: tensor<1x3x8x8xi8>) -> (tensor<1x8x8x3xi8>, tensor<3x4x2x4x2xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[3, 2, 4, 2, 4]> : tensor<5xindex>}> : () -> !tosa.shape<5>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x3x8x8xi8>, !tosa.shape<5>) -> tensor<3x2x4x2x4xi8>
  %3 = "tosa.transpose"(%2) <{perms = array<i32: 0, 2, 1, 4, 3>}> : (tensor<3x2x4x2x4xi8>) -> tensor<3x4x2x4x2xi8>
  %4 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x3x8x8xi8>) -> tensor<1x8x8x3xi8>
  return %4, %3 : tensor<1x8x8x3xi8>, tensor<3x4x2x4x2xi8>
}

// after
func.func @main(%0: tensor<1x3x8x8xi8>) -> (tensor<1x8x8x3xi8>, tensor<3x4x2x4x2xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[3, 2, 4, 2, 4]> : tensor<5xindex>}> : () -> !tosa.shape<5>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x3x8x8xi8>, !tosa.shape<5>) -> tensor<3x2x4x2x4xi8>
  %3 = "tosa.const_shape"() <{values = dense<[3, 2, 32]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %4 = "tosa.reshape"(%2, %3) : (tensor<3x2x4x2x4xi8>, !tosa.shape<3>) -> tensor<3x2x32xi8>
  %5 = "tosa.transpose"(%4) <{perms = array<i32: 1, 0, 2>}> : (tensor<3x2x32xi8>) -> tensor<2x3x32xi8>
  %6 = "tosa.const_shape"() <{values = dense<[24, 2, 4]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %7 = "tosa.reshape"(%5, %6) : (tensor<2x3x32xi8>, !tosa.shape<3>) -> tensor<24x2x4xi8>
  %8 = "tosa.transpose"(%7) <{perms = array<i32: 2, 1, 0>}> : (tensor<24x2x4xi8>) -> tensor<4x2x24xi8>
  %9 = "tosa.const_shape"() <{values = dense<[8, 2, 12]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %10 = "tosa.reshape"(%8, %9) : (tensor<4x2x24xi8>, !tosa.shape<3>) -> tensor<8x2x12xi8>
  %11 = "tosa.transpose"(%10) <{perms = array<i32: 2, 1, 0>}> : (tensor<8x2x12xi8>) -> tensor<12x2x8xi8>
  %12 = "tosa.const_shape"() <{values = dense<[3, 4, 2, 4, 2]> : tensor<5xindex>}> : () -> !tosa.shape<5>
  %13 = "tosa.reshape"(%11, %12) : (tensor<12x2x8xi8>, !tosa.shape<5>) -> tensor<3x4x2x4x2xi8>
  %14 = "tosa.const_shape"() <{values = dense<[1, 3, 64]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %15 = "tosa.reshape"(%0, %14) : (tensor<1x3x8x8xi8>, !tosa.shape<3>) -> tensor<1x3x64xi8>
  %16 = "tosa.transpose"(%15) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x3x64xi8>) -> tensor<1x64x3xi8>
  %17 = "tosa.const_shape"() <{values = dense<[1, 8, 8, 3]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %18 = "tosa.reshape"(%16, %17) : (tensor<1x64x3xi8>, !tosa.shape<4>) -> tensor<1x8x8x3xi8>
  return %18, %13 : tensor<1x8x8x3xi8>, tensor<3x4x2x4x2xi8>
}
