// before
func.func @main(%0: tensor<1x5x64xi8>) -> (tensor<1x1x64xi32>) {
  %1 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[-128]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.rescale"(%0, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x5x64xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x5x64xi32>
  %6 = "tosa.reduce_sum"(%5) <{axis = 1 : i32}> : (tensor<1x5x64xi32>) -> tensor<1x1x64xi32>
  return %6 : tensor<1x1x64xi32>
}

// after
func.func @main(%0: tensor<1x5x64xi8>) -> (tensor<1x1x64xi32>) {
  %1 = "tosa.const_shape"() <{values = dense<[0, 4, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %2 = "tosa.const_shape"() <{values = dense<[1, 1, 64]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %3 = "tosa.slice"(%0, %1, %2) : (tensor<1x5x64xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x1x64xi8>
  %4 = "tosa.const_shape"() <{values = dense<[0, 0, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %5 = "tosa.const_shape"() <{values = dense<[1, 2, 64]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %6 = "tosa.slice"(%0, %4, %5) : (tensor<1x5x64xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x2x64xi8>
  %7 = "tosa.const_shape"() <{values = dense<[0, 2, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %8 = "tosa.slice"(%0, %7, %5) : (tensor<1x5x64xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x2x64xi8>
  %9 = "tosa.const"() <{values = dense<[-128]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %10 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %11 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %12 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %13 = "tosa.rescale"(%6, %10, %11, %9, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x64xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x2x64xi32>
  %14 = "tosa.rescale"(%8, %10, %11, %9, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x64xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x2x64xi32>
  %15 = "tosa.add"(%13, %14) : (tensor<1x2x64xi32>, tensor<1x2x64xi32>) -> tensor<1x2x64xi32>
  %16 = "tosa.const"() <{values = dense<[0]> : tensor<1xi16>}> : () -> tensor<1xi16>
  %17 = "tosa.rescale"(%15, %10, %11, %12, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x2x64xi16>
  %18 = "tosa.slice"(%17, %4, %2) : (tensor<1x2x64xi16>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x1x64xi16>
  %19 = "tosa.const_shape"() <{values = dense<[0, 1, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %20 = "tosa.slice"(%17, %19, %2) : (tensor<1x2x64xi16>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x1x64xi16>
  %21 = "tosa.rescale"(%18, %10, %11, %16, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %22 = "tosa.rescale"(%20, %10, %11, %16, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %23 = "tosa.add"(%21, %22) : (tensor<1x1x64xi32>, tensor<1x1x64xi32>) -> tensor<1x1x64xi32>
  %24 = "tosa.rescale"(%23, %10, %11, %12, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x1x64xi16>
  %25 = "tosa.const"() <{values = dense<[[[1]]]> : tensor<1x1x1xi8>}> : () -> tensor<1x1x1xi8>
  %26 = "tosa.rescale"(%3, %10, %11, %9, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %27 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %28 = "tosa.rescale"(%25, %10, %11, %27, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x1x1xi32>
  %29 = "tosa.mul"(%26, %28, %27) : (tensor<1x1x64xi32>, tensor<1x1x1xi32>, tensor<1xi8>) -> tensor<1x1x64xi32>
  %30 = "tosa.rescale"(%29, %10, %11, %12, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x1x64xi16>
  %31 = "tosa.rescale"(%24, %10, %11, %16, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %32 = "tosa.rescale"(%30, %10, %11, %16, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %33 = "tosa.add"(%31, %32) : (tensor<1x1x64xi32>, tensor<1x1x64xi32>) -> tensor<1x1x64xi32>
  %34 = "tosa.rescale"(%33, %10, %11, %12, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x1x64xi16>
  %35 = "tosa.rescale"(%34, %10, %11, %16, %12) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  return %35 : tensor<1x1x64xi32>
}
