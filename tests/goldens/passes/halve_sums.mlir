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
  %1 = "tosa.const"() <{values = dense<[1073741824]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %2 = "tosa.const"() <{values = dense<[30]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = "tosa.const"() <{values = dense<[-128]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %5 = "tosa.const_shape"() <{values = dense<[0, 4, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %6 = "tosa.const_shape"() <{values = dense<[1, 1, 64]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %7 = "tosa.slice"(%0, %5, %6) : (tensor<1x5x64xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x1x64xi8>
  %8 = "tosa.const_shape"() <{values = dense<[0, 0, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %9 = "tosa.const_shape"() <{values = dense<[1, 2, 64]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %10 = "tosa.slice"(%0, %8, %9) : (tensor<1x5x64xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x2x64xi8>
  %11 = "tosa.const_shape"() <{values = dense<[0, 2, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %12 = "tosa.slice"(%0, %11, %9) : (tensor<1x5x64xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x2x64xi8>
  %13 = "tosa.rescale"(%10, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x64xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x2x64xi32>
  %14 = "tosa.rescale"(%12, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x64xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x2x64xi32>
  %15 = "tosa.add"(%13, %14) : (tensor<1x2x64xi32>, tensor<1x2x64xi32>) -> tensor<1x2x64xi32>
  %16 = "tosa.const"() <{values = dense<[0]> : tensor<1xi16>}> : () -> tensor<1xi16>
  %17 = "tosa.rescale"(%15, %1, %2, %4, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x2x64xi16>
  %18 = "tosa.slice"(%17, %8, %6) : (tensor<1x2x64xi16>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x1x64xi16>
  %19 = "tosa.const_shape"() <{values = dense<[0, 1, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %20 = "tosa.slice"(%17, %19, %6) : (tensor<1x2x64xi16>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x1x64xi16>
  %21 = "tosa.rescale"(%18, %1, %2, %16, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %22 = "tosa.rescale"(%20, %1, %2, %16, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %23 = "tosa.add"(%21, %22) : (tensor<1x1x64xi32>, tensor<1x1x64xi32>) -> tensor<1x1x64xi32>
  %24 = "tosa.rescale"(%23, %1, %2, %4, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x1x64xi16>
  %25 = "tosa.const"() <{values = dense<[[[1]]]> : tensor<1x1x1xi8>}> : () -> tensor<1x1x1xi8>
  %26 = "tosa.rescale"(%7, %1, %2, %3, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %27 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %28 = "tosa.rescale"(%25, %1, %2, %27, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<1x1x1xi32>
  %29 = "tosa.mul"(%26, %28, %27) : (tensor<1x1x64xi32>, tensor<1x1x1xi32>, tensor<1xi8>) -> tensor<1x1x64xi32>
  %30 = "tosa.rescale"(%29, %1, %2, %4, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x1x64xi16>
  %31 = "tosa.rescale"(%24, %1, %2, %16, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %32 = "tosa.rescale"(%30, %1, %2, %16, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  %33 = "tosa.add"(%31, %32) : (tensor<1x1x64xi32>, tensor<1x1x64xi32>) -> tensor<1x1x64xi32>
  %34 = "tosa.rescale"(%33, %1, %2, %4, %16) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x1x64xi16>
  %35 = "tosa.rescale"(%34, %1, %2, %16, %4) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x64xi16>, tensor<1xi32>, tensor<1xi8>, tensor<1xi16>, tensor<1xi32>) -> tensor<1x1x64xi32>
  return %35 : tensor<1x1x64xi32>
}
