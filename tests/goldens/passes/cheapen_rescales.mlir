// before
func.func @main(%0: tensor<1x8x8x2xi8>) -> (tensor<1x4x4x2xi8>, tensor<1x8x8x2xi8>) {
  %1 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 2, 2>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}> : (tensor<1x8x8x2xi8>) -> tensor<1x4x4x2xi8>
  %2 = "tosa.const"() <{values = dense<[1610612736]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %3 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.rescale"(%1, %2, %3, %4, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4x4x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi8>
  %6 = "tosa.const"() <{values = dense<[1503238554]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %7 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %8 = "tosa.rescale"(%0, %6, %7, %4, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x8x8x2xi8>
  return %5, %8 : tensor<1x4x4x2xi8>, tensor<1x8x8x2xi8>
}

// after
func.func @main(%0: tensor<1x8x8x2xi8>) -> (tensor<1x4x4x2xi8>, tensor<1x8x8x2xi8>) {
  %1 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 2, 2>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}> : (tensor<1x8x8x2xi8>) -> tensor<1x4x4x2xi8>
  %2 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<-128> : tensor<256xi8>}> : () -> tensor<256xi8>
  %5 = "tosa.table"(%1, %4) : (tensor<1x4x4x2xi8>, tensor<256xi8>) -> tensor<1x4x4x2xi8>
  %6 = "tosa.const"() <{values = dense<[1503238554]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %7 = "tosa.const"() <{values = dense<[31]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %8 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %9 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %10 = "tosa.rescale"(%0, %8, %2, %3, %9) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x8x8x2xi32>
  %11 = "tosa.const"() <{values = dense<[[[[1]]]]> : tensor<1x1x1x1xi8>}> : () -> tensor<1x1x1x1xi8>
  %12 = "tosa.rescale"(%11, %8, %2, %3, %9) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x1x1x1xi32>
  %13 = "tosa.mul"(%10, %12, %3) : (tensor<1x8x8x2xi32>, tensor<1x1x1x1xi32>, tensor<1xi8>) -> tensor<1x8x8x2xi32>
  %14 = "tosa.rescale"(%13, %6, %7, %9, %3) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x8x8x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x8x8x2xi8>
  return %5, %14 : tensor<1x4x4x2xi8>, tensor<1x8x8x2xi8>
}
