// before
func.func @main(%0: tensor<4x8xi8>, %1: tensor<4x8xi8>) -> (tensor<2x4xi8>, tensor<4x3xi8>, tensor<4x8xi8>) {
  %2 = "tosa.const_shape"() <{values = dense<[0, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %3 = "tosa.const_shape"() <{values = dense<[4, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %4 = "tosa.slice"(%0, %2, %3) : (tensor<4x8xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<4x6xi8>
  %5 = "tosa.const_shape"() <{values = dense<[1, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %6 = "tosa.const_shape"() <{values = dense<[2, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %7 = "tosa.slice"(%4, %5, %6) : (tensor<4x6xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x4xi8>
  %8 = "tosa.concat"(%0, %1) <{axis = 1 : i32}> : (tensor<4x8xi8>, tensor<4x8xi8>) -> tensor<4x16xi8>
  %9 = "tosa.const_shape"() <{values = dense<[0, 9]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %10 = "tosa.const_shape"() <{values = dense<[4, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %11 = "tosa.slice"(%8, %9, %10) : (tensor<4x16xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<4x3xi8>
  %12 = "tosa.const_shape"() <{values = dense<[0, 0]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %13 = "tosa.const_shape"() <{values = dense<[4, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %14 = "tosa.slice"(%0, %12, %13) : (tensor<4x8xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<4x4xi8>
  %15 = "tosa.const_shape"() <{values = dense<[0, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %16 = "tosa.slice"(%0, %15, %13) : (tensor<4x8xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<4x4xi8>
  %17 = "tosa.concat"(%14, %16) <{axis = 1 : i32}> : (tensor<4x4xi8>, tensor<4x4xi8>) -> tensor<4x8xi8>
  %18 = "tosa.const_shape"() <{values = dense<[4, 8]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %19 = "tosa.slice"(%17, %12, %18) : (tensor<4x8xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<4x8xi8>
  return %7, %11, %19 : tensor<2x4xi8>, tensor<4x3xi8>, tensor<4x8xi8>
}

// after
func.func @main(%0: tensor<4x8xi8>, %1: tensor<4x8xi8>) -> (tensor<2x4xi8>, tensor<4x3xi8>, tensor<4x8xi8>) {
  %2 = "tosa.const_shape"() <{values = dense<[2, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %3 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %4 = "tosa.slice"(%0, %3, %2) : (tensor<4x8xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x4xi8>
  %5 = "tosa.const_shape"() <{values = dense<[4, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %6 = "tosa.const_shape"() <{values = dense<[0, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %7 = "tosa.slice"(%1, %6, %5) : (tensor<4x8xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<4x3xi8>
  return %4, %7, %0 : tensor<2x4xi8>, tensor<4x3xi8>, tensor<4x8xi8>
}
