"""Rules aten -> TOSA, one module per family of ops."""
