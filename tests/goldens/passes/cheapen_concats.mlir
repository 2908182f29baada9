// before
func.func @main(%0: tensor<1x8x8x16xi8>) -> (tensor<1x8x8x32xi8>) {
  %1 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 1, 1>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x16xi8>) -> tensor<1x8x8x16xi8>
  %2 = "tosa.clamp"(%1) <{max_val = 9 : i8, min_val = 0 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x8x8x16xi8>) -> tensor<1x8x8x16xi8>
  %3 = "tosa.concat"(%1, %2) <{axis = 3 : i32}> : (tensor<1x8x8x16xi8>, tensor<1x8x8x16xi8>) -> tensor<1x8x8x32xi8>
  return %3 : tensor<1x8x8x32xi8>
}

// after
func.func @main(%0: tensor<1x8x8x16xi8>) -> (tensor<1x8x8x32xi8>) {
  %1 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 1, 1>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x16xi8>) -> tensor<1x8x8x16xi8>
  %2 = "tosa.clamp"(%1) <{max_val = 9 : i8, min_val = 0 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x8x8x16xi8>) -> tensor<1x8x8x16xi8>
  %3 = "tosa.const"() <{values = dense<[[[[1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1]]]]> : tensor<1x1x16x1xi8>}> : () -> tensor<1x1x16x1xi8>
  %4 = "tosa.const"() <{values = dense<[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]> : tensor<16xi32>}> : () -> tensor<16xi32>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %6 = "tosa.depthwise_conv2d"(%1, %3, %4, %5, %5) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x16xi8>, tensor<1x1x16x1xi8>, tensor<16xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x8x8x16xi32>
  %7 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %9 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %10 = "tosa.rescale"(%6, %8, %9, %7, %5) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x16xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x8x8x16xi8>
  %11 = "tosa.concat"(%10, %2) <{axis = 3 : i32}> : (tensor<1x8x8x16xi8>, tensor<1x8x8x16xi8>) -> tensor<1x8x8x32xi8>
  return %11 : tensor<1x8x8x32xi8>
}
