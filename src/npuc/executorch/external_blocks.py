"""Blocks of an Ethos-U payload that are stored outside of it, as named data of the program."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from npuc.targets.ethos_u_files import pack_block, read_blocks

#: named data starts at multiples of this
ALIGNMENT = 16


def externalize(payload: bytes, placements: Mapping[str, str]) -> tuple[bytes, dict[str, bytes]]:
    """The payload with references in place of blocks, and the blocks by their key.

    placements: name of a block ("weight_data") -> tag. The key, which the payload holds with the
    external flag set, is the SHA-256 of tag and data in hexadecimal. Empty blocks stay inside.
    """
    moved: dict[str, bytes] = {}
    parts = []
    for name, data in read_blocks(payload).items():
        tag = placements.get(name)
        if tag is None or not data:
            parts.append(pack_block(name, data))
            continue
        key = hashlib.sha256(tag.encode() + data).hexdigest()
        moved[key] = data
        parts.append(pack_block(name, key.encode(), external=True))
    return b"".join(parts), moved
