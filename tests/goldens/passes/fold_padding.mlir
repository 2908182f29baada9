// before
func.func @main(%0: tensor<1x4x4x2xi8>) -> (tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>) {
  %1 = "tosa.const"() <{values = dense<[3]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const_shape"() <{values = dense<[0, 0, 1, 1, 1, 1, 0, 0]> : tensor<8xindex>}> : () -> !tosa.shape<8>
  %3 = "tosa.pad"(%0, %2, %1) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %4 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %5 = "tosa.pad"(%0, %2, %4) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %6 = "tosa.const"() <{values = dense<[-128]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %7 = "tosa.pad"(%0, %2, %6) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %8 = "tosa.max_pool2d"(%7) <{kernel = array<i64: 2, 2>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}> : (tensor<1x6x6x2xi8>) -> tensor<1x3x3x2xi8>
  %9 = "tosa.const"() <{values = dense<-3> : tensor<2x3x3x2xi8>}> : () -> tensor<2x3x3x2xi8>
  %10 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %11 = "tosa.conv2d"(%3, %9, %10, %1, %4) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x6x6x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %12 = "tosa.conv2d"(%5, %9, %10, %1, %4) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x6x6x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  return %11, %12, %8 : tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>
}

// after
func.func @main(%0: tensor<1x4x4x2xi8>) -> (tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>) {
  %1 = "tosa.const"() <{values = dense<[3]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.const_shape"() <{values = dense<[0, 0, 1, 1, 1, 1, 0, 0]> : tensor<8xindex>}> : () -> !tosa.shape<8>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi8>}> : () -> tensor<1xi8>
  %4 = "tosa.pad"(%0, %2, %3) : (tensor<1x4x4x2xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x6x6x2xi8>
  %5 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 2, 2>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 2, 2>}> : (tensor<1x4x4x2xi8>) -> tensor<1x3x3x2xi8>
  %6 = "tosa.const"() <{values = dense<-3> : tensor<2x3x3x2xi8>}> : () -> tensor<2x3x3x2xi8>
  %7 = "tosa.const"() <{values = dense<[0, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %8 = "tosa.conv2d"(%0, %6, %7, %1, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  %9 = "tosa.conv2d"(%4, %6, %7, %1, %3) <{acc_type = i32, dilation = array<i64: 1, 1>, local_bound = false, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x6x6x2xi8>, tensor<2x3x3x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2xi32>
  return %8, %9, %5 : tensor<1x4x4x2xi32>, tensor<1x4x4x2xi32>, tensor<1x3x3x2xi8>
}
