// before
func.func @main(%0: tensor<1x8x8x2xi8>) -> (tensor<1x8x8x2xi8>) {
  %1 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 1, 1>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x2xi8>) -> tensor<1x8x8x2xi8>
  %2 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 2, 1>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 1, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x2xi8>) -> tensor<1x8x8x2xi8>
  %3 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %4 = "tosa.const"() <{values = dense<[12]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %6 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %7 = "tosa.rescale"(%1, %3, %4, %5, %6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x8x8x2xi32>
  %8 = "tosa.const"() <{values = dense<[11]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %9 = "tosa.rescale"(%2, %3, %8, %5, %6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x8x8x2xi32>
  %10 = "tosa.add"(%7, %9) : (tensor<1x8x8x2xi32>, tensor<1x8x8x2xi32>) -> tensor<1x8x8x2xi32>
  %11 = "tosa.const"() <{values = dense<[1503238554]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %12 = "tosa.const"() <{values = dense<[50]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %13 = "tosa.const"() <{values = dense<[-5]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %14 = "tosa.rescale"(%10, %11, %12, %6, %13) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x8x8x2xi8>
  return %14 : tensor<1x8x8x2xi8>
}

// after
func.func @main(%0: tensor<1x8x8x2xi8>) -> (tensor<1x8x8x2xi8>) {
  %1 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 1, 1>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x2xi8>) -> tensor<1x8x8x2xi8>
  %2 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 2, 1>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 1, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x2xi8>) -> tensor<1x8x8x2xi8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.const"() <{values = dense<[1503238554]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %6 = "tosa.const"() <{values = dense<[-5]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %7 = "tosa.concat"(%1, %2) <{axis = 3 : i32}> : (tensor<1x8x8x2xi8>, tensor<1x8x8x2xi8>) -> tensor<1x8x8x4xi8>
  %8 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %9 = "tosa.const"() <{values = dense<[[[[1, 0, 2, 0]]], [[[0, 1, 0, 2]]]]> : tensor<2x1x1x4xi8>}> : () -> tensor<2x1x1x4xi8>
  %10 = "tosa.conv2d"(%7, %9, %8, %3, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x8x8x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x8x8x2xi32>
  %11 = "tosa.const"() <{values = dense<[32]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %12 = "tosa.rescale"(%10, %5, %11, %4, %6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x8x8x2xi8>
  return %12 : tensor<1x8x8x2xi8>
}
