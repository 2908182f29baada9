// before
func.func @main(%0: tensor<1x2x4x4xi8>) -> (tensor<1x2x4x4xi8>) {
  %1 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x2x4x4xi8>) -> tensor<1x4x4x2xi8>
  %2 = "tosa.const"() <{values = dense<[[[[-3, -2]]], [[[-1, 0]]]]> : tensor<2x1x1x2xi8>}> : () -> tensor<2x1x1x2xi8>
  %3 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.conv2d"(%1, %2, %3, %4, %4) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x2xi8>, tensor<2x1x1x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %6 = "tosa.transpose"(%5) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x4x4x2xi32>) -> tensor<1x2x4x4xi32>
  %7 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %9 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %10 = "tosa.rescale"(%6, %7, %8, %9, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x4x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x4x4xi8>
  %11 = "tosa.clamp"(%10) <{max_val = 9 : i8, min_val = 0 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8>
  %12 = "tosa.concat"(%10, %11) <{axis = 1 : i32}> : (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) -> tensor<1x4x4x4xi8>
  %13 = "tosa.transpose"(%12) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x4x4x4xi8>) -> tensor<1x4x4x4xi8>
  %14 = "tosa.const"() <{values = dense<[[[[-3, -2, -1, 0]]], [[[1, 2, 3, -3]]]]> : tensor<2x1x1x4xi8>}> : () -> tensor<2x1x1x4xi8>
  %15 = "tosa.conv2d"(%13, %14, %3, %4, %4) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %16 = "tosa.transpose"(%15) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x4x4x2xi32>) -> tensor<1x2x4x4xi32>
  %17 = "tosa.rescale"(%16, %7, %8, %9, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x4x4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x4x4xi8>
  return %17 : tensor<1x2x4x4xi8>
}

// after
func.func @main(%0: tensor<1x2x4x4xi8>) -> (tensor<1x2x4x4xi8>) {
  %1 = "tosa.const"() <{values = dense<[[[[-3, -2]]], [[[-1, 0]]]]> : tensor<2x1x1x2xi8>}> : () -> tensor<2x1x1x2xi8>
  %2 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x2x4x4xi8>) -> tensor<1x4x4x2xi8>
  %5 = "tosa.conv2d"(%4, %1, %2, %3, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x2xi8>, tensor<2x1x1x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %6 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %7 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %8 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %9 = "tosa.rescale"(%5, %6, %7, %8, %3) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4x4x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x4x4x2xi8>
  %10 = "tosa.clamp"(%9) <{max_val = 9 : i8, min_val = 0 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xi8>
  %11 = "tosa.concat"(%9, %10) <{axis = 3 : i32}> : (tensor<1x4x4x2xi8>, tensor<1x4x4x2xi8>) -> tensor<1x4x4x4xi8>
  %12 = "tosa.const"() <{values = dense<[[[[-3, -2, -1, 0]]], [[[1, 2, 3, -3]]]]> : tensor<2x1x1x4xi8>}> : () -> tensor<2x1x1x4xi8>
  %13 = "tosa.conv2d"(%11, %12, %2, %3, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %14 = "tosa.rescale"(%13, %6, %7, %8, %3) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4x4x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x4x4x2xi8>
  %15 = "tosa.transpose"(%14) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x4x4x2xi8>) -> tensor<1x2x4x4xi8>
  return %15 : tensor<1x2x4x4xi8>
}
