"""Lowering: one rule per aten op, and the dry run that answers what is supported."""
