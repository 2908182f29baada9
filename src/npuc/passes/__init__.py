"""Passes: each a function Graph -> Graph in a file of its own name."""
