// before
func.func @main(%0: tensor<2x3xi32>) -> (tensor<2x3xi32>) {
  %1 = "tosa.const"() <{values = dense<[[0, 1], [2, 3], [4, 5]]> : tensor<3x2xi32>}> : () -> tensor<3x2xi32>
  %2 = "tosa.transpose"(%1) <{perms = array<i32: 1, 0>}> : (tensor<3x2xi32>) -> tensor<2x3xi32>
  %3 = "tosa.const"() <{values = dense<[0]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %4 = "tosa.negate"(%2, %3, %3) : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x3xi32>
  %5 = "tosa.add"(%0, %4) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return %5 : tensor<2x3xi32>
}

// after
func.func @main(%0: tensor<2x3xi32>) -> (tensor<2x3xi32>) {
  %1 = "tosa.const"() <{values = dense<[[0, -2, -4], [-1, -3, -5]]> : tensor<2x3xi32>}> : () -> tensor<2x3xi32>
  %2 = "tosa.add"(%0, %1) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return %2 : tensor<2x3xi32>
}
