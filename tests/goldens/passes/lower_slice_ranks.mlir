// before
func.func @main(%0: tensor<1x4x3x5x6xi8>) -> (tensor<4x3x2x6xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 1, 0]> : tensor<5xindex>}> : () -> !tosa.shape<5>
  %2 = "tosa.const_shape"() <{values = dense<[1, 4, 3, 2, 6]> : tensor<5xindex>}> : () -> !tosa.shape<5>
  %3 = "tosa.slice"(%0, %1, %2) : (tensor<1x4x3x5x6xi8>, !tosa.shape<5>, !tosa.shape<5>) -> tensor<1x4x3x2x6xi8>
  %4 = "tosa.const_shape"() <{values = dense<[4, 3, 2, 6]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %5 = "tosa.reshape"(%3, %4) : (tensor<1x4x3x2x6xi8>, !tosa.shape<4>) -> tensor<4x3x2x6xi8>
  return %5 : tensor<4x3x2x6xi8>
}

// after
func.func @main(%0: tensor<1x4x3x5x6xi8>) -> (tensor<4x3x2x6xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[4, 3, 5, 6]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x4x3x5x6xi8>, !tosa.shape<4>) -> tensor<4x3x5x6xi8>
  %3 = "tosa.const_shape"() <{values = dense<[0, 0, 1, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %4 = "tosa.const_shape"() <{values = dense<[4, 3, 2, 6]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %5 = "tosa.slice"(%2, %3, %4) : (tensor<4x3x5x6xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<4x3x2x6xi8>
  return %5 : tensor<4x3x2x6xi8>
}
