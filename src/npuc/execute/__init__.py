"""Running what was compiled: our evaluator, the TOSA reference model, VGF on Vulkan."""
