// before
func.func @main(%0: tensor<1x2xi8>) -> (tensor<1x6xi8>, tensor<1x8xi8>) {
  %1 = "tosa.concat"(%0, %0) <{axis = 1 : i32}> : (tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<1x4xi8>
  %2 = "tosa.concat"(%1, %0) <{axis = 1 : i32}> : (tensor<1x4xi8>, tensor<1x2xi8>) -> tensor<1x6xi8>
  %3 = "tosa.concat"(%0, %1) <{axis = 1 : i32}> : (tensor<1x2xi8>, tensor<1x4xi8>) -> tensor<1x6xi8>
  %4 = "tosa.concat"(%3, %0) <{axis = 1 : i32}> : (tensor<1x6xi8>, tensor<1x2xi8>) -> tensor<1x8xi8>
  return %2, %4 : tensor<1x6xi8>, tensor<1x8xi8>
}

// after
func.func @main(%0: tensor<1x2xi8>) -> (tensor<1x6xi8>, tensor<1x8xi8>) {
  %1 = "tosa.concat"(%0, %0) <{axis = 1 : i32}> : (tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<1x4xi8>
  %2 = "tosa.concat"(%1, %0) <{axis = 1 : i32}> : (tensor<1x4xi8>, tensor<1x2xi8>) -> tensor<1x6xi8>
  %3 = "tosa.concat"(%0, %1, %0) <{axis = 1 : i32}> : (tensor<1x2xi8>, tensor<1x4xi8>, tensor<1x2xi8>) -> tensor<1x8xi8>
  return %2, %3 : tensor<1x6xi8>, tensor<1x8xi8>
}
