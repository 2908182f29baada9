"""Lowering rules from aten to TFLite, one file per family of ops."""
