"""How ATen's many spellings are written in the canonical ops, by families of ops."""

from npuc.frontend.spellings import (  # noqa: F401 - importing registers the spellings
    index,
    layers,
    open_sizes,
    pointwise,
    product,
    quantize,
    reduce,
    shape,
    unary,
)
from npuc.frontend.spellings.registry import SPELLINGS, Spelling
from npuc.frontend.spellings.speller import Speller

__all__ = ["SPELLINGS", "Speller", "Spelling"]
