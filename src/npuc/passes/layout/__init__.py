"""How ops behave under a permutation of their axes, and the cheapest layout of every value."""
