"""Catch what native libraries print: stdout stays clean and their reasons reach the user."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# File descriptors belong to the whole process: one capture at a time.
_lock = threading.Lock()


class CapturedText:
    """Filled when the `capture_output` block ends."""

    def __init__(self) -> None:
        self.text = ""


@contextmanager
def capture_output() -> Iterator[CapturedText]:
    """Redirect file descriptors 1 and 2 into `.text` of the yielded object."""
    captured = CapturedText()
    with _lock, tempfile.TemporaryFile() as sink:
        _flush()
        saved = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
        for descriptor, _ in saved:
            os.dup2(sink.fileno(), descriptor)
        try:
            yield captured
        finally:
            _flush()
            for descriptor, copy in saved:
                os.dup2(copy, descriptor)
                os.close(copy)
            sink.seek(0)
            captured.text = sink.read().decode(errors="replace")


def _flush() -> None:
    """Empty the buffers of Python and of C: both may hold text for the other side of a switch."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ctypes.CDLL(None).fflush(None)
