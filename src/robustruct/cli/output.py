"""Checks of output files, made before the work."""

from __future__ import annotations

import os

from robustruct.formats.output import is_special


def check_writable(path: str) -> None:
    """Refuse a file that could not be written, before hours of training."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise OSError(f"cannot write {path}: it is a folder.")
    if is_special(path):  # a device or pipe is opened itself, so its folder need not be writable
        if not os.access(path, os.W_OK):
            raise OSError(f"cannot write {path}: it does not allow it.")
        return
    if not os.path.isdir(folder):
        raise OSError(f"cannot write {path}: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise OSError(f"cannot write {path}: the folder {folder} does not allow it.")
