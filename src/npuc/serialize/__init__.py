"""Graphs to files and back: TOSA flatbuffers. Writers decide nothing; readers trust nothing."""
