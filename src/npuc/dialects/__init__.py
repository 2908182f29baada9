"""Dialects: op definitions, type and shape rules, limits. They know nothing of PyTorch."""
