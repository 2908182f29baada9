"""The self-check: the compiled graph against PyTorch, per op and end to end."""
