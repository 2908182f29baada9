// before
func.func @main(%0: tensor<1x4x4x2xi8>) -> (tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>, tensor<1x1x17x1xi32>) {
  %1 = "tosa.const"() <{values = dense<[3]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const_shape"() <{values = dense<[0, 0, 1, 1, 1, 1, 0, 0]> : tensor<8xindex>}> : () -> !tosa.shape<8>
  %3 = "tosa.pad"(%0, %2, %1) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.pad"(%0, %2, %4) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %6 = "tosa.const"() <{values = dense<[-128]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %7 = "tosa.pad"(%0, %2, %6) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %8 = "tosa.max_pool2d"(%7) <{kernel = array<i64: 2, 2>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}> : (tensor<1x6x6x2xi8>) -> tensor<1x3x3x2xi8>
  %9 = "tosa.const_shape"() <{values = dense<[1, 16, 1, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %10 = "tosa.reshape"(%0, %9) : (tensor<1x4x4x2xi8>, !tosa.shape<4>) -> tensor<1x16x1x2xi8>
  %11 = "tosa.const_shape"() <{values = dense<[0, 0, 2, 1, 0, 0, 0, 0]> : tensor<8xindex>}> : () -> !tosa.shape<8>
  %12 = "tosa.pad"(%10, %11, %1) : (tensor<1x16x1x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x19x1x2xi8>
  %13 = "tosa.const_shape"() <{values = dense<[1, 1, 19, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %14 = "tosa.reshape"(%12, %13) : (tensor<1x19x1x2xi8>, !tosa.shape<4>) -> tensor<1x1x19x2xi8>
  %15 = "tosa.const"() <{values = dense<[[[[1, 1], [1, 1], [1, 1]]]]> : tensor<1x1x3x2xi8>}> : () -> tensor<1x1x3x2xi8>
  %16 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %17 = "tosa.conv2d"(%14, %15, %16, %1, %4) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x19x2xi8>, tensor<1x1x3x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x17x1xi32>
  %18 = "tosa.const"() <{values = dense<-3> : tensor<2x3x3x2xi8>}> : () -> tensor<2x3x3x2xi8>
  %19 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %20 = "tosa.conv2d"(%3, %18, %19, %1, %4) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x6x6x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %21 = "tosa.conv2d"(%5, %18, %19, %1, %4) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x6x6x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  return %20, %21, %8, %17 : tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>, tensor<1x1x17x1xi32>
}

// after
func.func @main(%0: tensor<1x4x4x2xi8>) -> (tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>, tensor<1x1x17x1xi32>) {
  %1 = "tosa.const"() <{values = dense<[3]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const_shape"() <{values = dense<[0, 0, 1, 1, 1, 1, 0, 0]> : tensor<8xindex>}> : () -> !tosa.shape<8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.pad"(%0, %2, %3) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %5 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 2, 2>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 2, 2>}> : (tensor<1x4x4x2xi8>) -> tensor<1x3x3x2xi8>
  %6 = "tosa.const_shape"() <{values = dense<[1, 16, 1, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %7 = "tosa.reshape"(%0, %6) : (tensor<1x4x4x2xi8>, !tosa.shape<4>) -> tensor<1x16x1x2xi8>
  %8 = "tosa.const"() <{values = dense<[[[[1, 1], [1, 1], [1, 1]]]]> : tensor<1x1x3x2xi8>}> : () -> tensor<1x1x3x2xi8>
  %9 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %10 = "tosa.const_shape"() <{values = dense<[1, 1, 16, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %11 = "tosa.reshape"(%7, %10) : (tensor<1x16x1x2xi8>, !tosa.shape<4>) -> tensor<1x1x16x2xi8>
  %12 = "tosa.conv2d"(%11, %8, %9, %1, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 2, 1>, stride = array<i64: 1, 1>}> : (tensor<1x1x16x2xi8>, tensor<1x1x3x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x17x1xi32>
  %13 = "tosa.const"() <{values = dense<-3> : tensor<2x3x3x2xi8>}> : () -> tensor<2x3x3x2xi8>
  %14 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %15 = "tosa.conv2d"(%0, %13, %14, %1, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %16 = "tosa.conv2d"(%4, %13, %14, %1, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x6x6x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  return %15, %16, %5, %12 : tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>, tensor<1x1x17x1xi32>
}
