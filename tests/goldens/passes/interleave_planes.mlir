// before
func.func @main(%0: tensor<1x2x128xi8>) -> (tensor<1x128x2xi8>) {
  %1 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 1>}> : (tensor<1x2x128xi8>) -> tensor<1x128x2xi8>
  return %1 : tensor<1x128x2xi8>
}

// after
func.func @main(%0: tensor<1x2x128xi8>) -> (tensor<1x128x2xi8>) {
  %1 = "tosa.const_shape"() <{values = dense<[1, 2, 128, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x2x128xi8>, !tosa.shape<4>) -> tensor<1x2x128x1xi8>
  %3 = "tosa.const"() <{values = dense<[[[[1]]]]> : tensor<1x1x1x1xi8>}> : () -> tensor<1x1x1x1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %6 = "tosa.const_shape"() <{values = dense<[1, 1, 128, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %7 = "tosa.slice"(%2, %5, %6) : (tensor<1x2x128x1xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x128x1xi8>
  %8 = "tosa.const_shape"() <{values = dense<[0, 1, 0, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %9 = "tosa.slice"(%2, %8, %6) : (tensor<1x2x128x1xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x128x1xi8>
  %10 = "tosa.mul"(%7, %3, %4) : (tensor<1x1x128x1xi8>, tensor<1x1x1x1xi8>, tensor<1xi8>) -> tensor<1x1x128x1xi32>
  %11 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %12 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %13 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %14 = "tosa.rescale"(%10, %12, %13, %11, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x128x1xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x128x1xi8>
  %15 = "tosa.mul"(%9, %3, %4) : (tensor<1x1x128x1xi8>, tensor<1x1x1x1xi8>, tensor<1xi8>) -> tensor<1x1x128x1xi32>
  %16 = "tosa.rescale"(%15, %12, %13, %11, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x128x1xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x128x1xi8>
  %17 = "tosa.concat"(%14, %16) <{axis = 3 : i32}> : (tensor<1x1x128x1xi8>, tensor<1x1x128x1xi8>) -> tensor<1x1x128x2xi8>
  %18 = "tosa.const_shape"() <{values = dense<[1, 128, 2]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %19 = "tosa.reshape"(%17, %18) : (tensor<1x1x128x2xi8>, !tosa.shape<3>) -> tensor<1x128x2xi8>
  return %19 : tensor<1x128x2xi8>
}
