"""Runs the command line in this process: status, stdout, stderr."""

from __future__ import annotations

import sys

import pytest

from npuc.cli.main import main


def run_cli(capsys, monkeypatch, *arguments):
    """(status, stdout, stderr) of `npuc` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["npuc", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
        sys.exit(0)
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err
