// before
func.func @main(%0: tensor<1x1x3x2xi8>) -> (tensor<2x3x16xi8>) {
  %1 = "tosa.const"() <{values = dense<-3> : tensor<32x1x1x2xi8>}> : () -> tensor<32x1x1x2xi8>
  %2 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<0> : tensor<32xi32>}> : () -> tensor<32xi32>
  %4 = "tosa.conv2d"(%0, %1, %3, %2, %2) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x2xi8>, tensor<32x1x1x2xi8>, tensor<32xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x32xi32>
  %5 = "tosa.const"() <{values = dense<[1717986918]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %6 = "tosa.const"() <{values = dense<[34]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %7 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.rescale"(%4, %5, %6, %7, %2) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x32xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x32xi8>
  %9 = "tosa.const_shape"() <{values = dense<[3, 2, 16]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %10 = "tosa.reshape"(%8, %9) : (tensor<1x1x3x32xi8>, !tosa.shape<3>) -> tensor<3x2x16xi8>
  %11 = "tosa.transpose"(%10) <{perms = array<i32: 1, 0, 2>}> : (tensor<3x2x16xi8>) -> tensor<2x3x16xi8>
  return %11 : tensor<2x3x16xi8>
}

// after
func.func @main(%0: tensor<1x1x3x2xi8>) -> (tensor<2x3x16xi8>) {
  %1 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const"() <{values = dense<[1717986918]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %3 = "tosa.const"() <{values = dense<[34]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.const"() <{values = dense<-3> : tensor<16x1x1x2xi8>}> : () -> tensor<16x1x1x2xi8>
  %6 = "tosa.const"() <{values = dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : tensor<16xi32>}> : () -> tensor<16xi32>
  %7 = "tosa.conv2d"(%0, %5, %6, %1, %1) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x2xi8>, tensor<16x1x1x2xi8>, tensor<16xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x16xi32>
  %8 = "tosa.rescale"(%7, %2, %3, %4, %1) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x16xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x16xi8>
  %9 = "tosa.const"() <{values = dense<1> : tensor<16x1x1x2xi8>}> : () -> tensor<16x1x1x2xi8>
  %10 = "tosa.const"() <{values = dense<[16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]> : tensor<16xi32>}> : () -> tensor<16xi32>
  %11 = "tosa.conv2d"(%0, %9, %10, %1, %1) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x2xi8>, tensor<16x1x1x2xi8>, tensor<16xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x16xi32>
  %12 = "tosa.rescale"(%11, %2, %3, %4, %1) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x16xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x16xi8>
  %13 = "tosa.concat"(%8, %12) <{axis = 1 : i32}> : (tensor<1x1x3x16xi8>, tensor<1x1x3x16xi8>) -> tensor<1x2x3x16xi8>
  %14 = "tosa.const_shape"() <{values = dense<[2, 3, 16]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %15 = "tosa.reshape"(%13, %14) : (tensor<1x2x3x16xi8>, !tosa.shape<3>) -> tensor<2x3x16xi8>
  return %15 : tensor<2x3x16xi8>
}
