// before
func.func @main(%0: tensor<1x3x4xi8>) -> (tensor<1x1x3x2xi32>) {
  %1 = "tosa.clamp"(%0) <{max_val = 9 : i8, min_val = -9 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x3x4xi8>) -> tensor<1x3x4xi8>
  %2 = "tosa.const_shape"() <{values = dense<[1, 1, 3, 4]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %3 = "tosa.reshape"(%1, %2) : (tensor<1x3x4xi8>, !tosa.shape<4>) -> tensor<1x1x3x4xi8>
  %4 = "tosa.const"() <{values = dense<[[[[-3, -2, -1, 0]]], [[[1, 2, 3, -3]]]]> : tensor<2x1x1x4xi8>}> : () -> tensor<2x1x1x4xi8>
  %5 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %6 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %7 = "tosa.conv2d"(%3, %4, %5, %6, %6) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x2xi32>
  %8 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %9 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %10 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %11 = "tosa.rescale"(%7, %8, %9, %10, %6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x2xi8>
  %12 = "tosa.const_shape"() <{values = dense<[1, 3, 2]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %13 = "tosa.reshape"(%11, %12) : (tensor<1x1x3x2xi8>, !tosa.shape<3>) -> tensor<1x3x2xi8>
  %14 = "tosa.concat"(%13, %13) <{axis = 2 : i32}> : (tensor<1x3x2xi8>, tensor<1x3x2xi8>) -> tensor<1x3x4xi8>
  %15 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %16 = "tosa.rescale"(%14, %8, %15, %6, %10) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x3x4xi32>
  %17 = "tosa.rescale"(%1, %8, %15, %6, %10) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x3x4xi32>
  %18 = "tosa.add"(%16, %17) : (tensor<1x3x4xi32>, tensor<1x3x4xi32>) -> tensor<1x3x4xi32>
  %19 = "tosa.rescale"(%18, %8, %9, %10, %6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x3x4xi8>
  %20 = "tosa.reshape"(%19, %2) : (tensor<1x3x4xi8>, !tosa.shape<4>) -> tensor<1x1x3x4xi8>
  %21 = "tosa.conv2d"(%20, %4, %5, %6, %6) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x2xi32>
  return %21 : tensor<1x1x3x2xi32>
}

// after
func.func @main(%0: tensor<1x3x4xi8>) -> (tensor<1x1x3x2xi32>) {
  %1 = "tosa.const_shape"() <{values = dense<[1, 1, 3, 4]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %2 = "tosa.reshape"(%0, %1) : (tensor<1x3x4xi8>, !tosa.shape<4>) -> tensor<1x1x3x4xi8>
  %3 = "tosa.clamp"(%2) <{max_val = 9 : i8, min_val = -9 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x1x3x4xi8>) -> tensor<1x1x3x4xi8>
  %4 = "tosa.const"() <{values = dense<[[[[-3, -2, -1, 0]]], [[[1, 2, 3, -3]]]]> : tensor<2x1x1x4xi8>}> : () -> tensor<2x1x1x4xi8>
  %5 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %6 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %7 = "tosa.conv2d"(%3, %4, %5, %6, %6) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x2xi32>
  %8 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %9 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %10 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %11 = "tosa.rescale"(%7, %8, %9, %10, %6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x2xi8>
  %12 = "tosa.concat"(%11, %11) <{axis = 3 : i32}> : (tensor<1x1x3x2xi8>, tensor<1x1x3x2xi8>) -> tensor<1x1x3x4xi8>
  %13 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %14 = "tosa.rescale"(%12, %8, %13, %6, %10) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x1x3x4xi32>
  %15 = "tosa.rescale"(%3, %8, %13, %6, %10) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x1x3x4xi32>
  %16 = "tosa.add"(%14, %15) : (tensor<1x1x3x4xi32>, tensor<1x1x3x4xi32>) -> tensor<1x1x3x4xi32>
  %17 = "tosa.rescale"(%16, %8, %9, %10, %6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3x4xi8>
  %18 = "tosa.conv2d"(%17, %4, %5, %6, %6) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x3x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3x2xi32>
  return %18 : tensor<1x1x3x2xi32>
}
