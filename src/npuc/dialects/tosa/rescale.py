"""Real scales as the multiplier and shift of a TOSA RESCALE."""

from __future__ import annotations

import numpy as np

from npuc.errors import Unsupported


def multiplier_and_shift(scale: np.ndarray, scale32: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Integers with multiplier * 2**-shift ~ scale, per element.

    The mantissa has 31 bits (scale32) or 15; 2 <= shift <= 62 as the specification's
    apply_scale_32 and apply_scale_16 demand. Raises Unsupported for a scale outside that range.
    """
    bits = 31 if scale32 else 15
    mantissa, exponent = np.frexp(np.asarray(scale, np.float64))
    multiplier = np.rint(mantissa * 2.0**bits).astype(np.int64)
    carry = multiplier == 2**bits
    multiplier = np.where(carry, multiplier // 2, multiplier)
    shift = bits - (exponent + carry)
    # a tiny scale: the shift ends at 62, the multiplier loses its low bits instead
    excess = np.clip(shift - 62, 0, 31)
    multiplier = (multiplier + ((1 << excess) >> 1)) >> excess
    shift = shift - excess
    shift = np.where(scale == 0, 2, shift)
    if np.any(shift < 2) or np.any(shift > 62) or np.any(scale < 0):
        worst = scale[(shift < 2) | (shift > 62) | (scale < 0)][0]
        raise Unsupported(f"RESCALE by {worst:g} is outside what a multiplier and shift express")
    return multiplier, shift
