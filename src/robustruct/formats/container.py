"""The container of models and checkpoints: named arrays and a JSON description, as safetensors.

The safetensors header holds, as strings,

    format           what the file is, such as "robustruct-model"
    format_version   an integer; a reader refuses files newer than itself
    written_by       version of robustruct
    description      JSON: everything that is not an array
    sha256           over the description and the name, type, shape and bytes of every array

Nothing in a file is ever executed. The meaning of a description is left to its writer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save, save_file

from robustruct._version import __version__
from robustruct.errors import InvalidInputError
from robustruct.formats.output import checked_path, is_special, opened_special, replaced

Path = str | os.PathLike[str]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class ContainerKind:
    """A kind of file."""

    format: str
    version: int
    """Raised when older readers would misread a file."""
    writer: str
    """The function that writes such files, for messages."""
    oldest: int = 1
    """Oldest version that is still read."""


def write_container(
    path: Path,
    kind: ContainerKind,
    description: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a file beside ``path`` and rename it when it is complete.

    A device or a pipe is written to directly.
    """
    text = json.dumps(description, ensure_ascii=True, allow_nan=False)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {
        "format": kind.format,
        "format_version": str(kind.version),
        "written_by": __version__,
        "description": text,
        "sha256": checksum(text, arrays),
    }
    if is_special(path):
        with opened_special(path) as file:
            file.write(save(arrays, header))
        return
    try:
        with replaced(path) as unfinished:
            save_file(arrays, unfinished, header)
            _flush(unfinished)
    except (SafetensorError, FileNotFoundError) as error:
        raise OSError(f"cannot write {os.fspath(path)!r}: {error}") from error
    _flush_folder(os.path.dirname(os.path.realpath(path)))


def read_container(path: Path, kind: ContainerKind) -> tuple[dict[str, Any], Arrays, str]:
    """Return (description, arrays, version of robustruct that wrote them)."""
    path = checked_path(path)
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        # Opening a pipe would wait for a writer.
        raise _refusal(path, "it is a pipe or a device; copy what comes from it into a file first")
    with open(path, "rb"):  # raises the system's own errors: absent, a folder, not allowed
        pass
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check_header(path, kind, header)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _refusal(path, f"it is damaged, or no safetensors file ({error})") from None
    except (
        TypeError,
        AttributeError,
        KeyError,
    ) as error:  # types that numpy lacks, such as bfloat16
        raise _refusal(path, f"it holds arrays of a type not known here ({error})") from None
    text = header.get("description", "")
    if checksum(text, arrays) != header.get("sha256"):
        raise _refusal(path, "its checksum does not match: the file is damaged or was changed")
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refusal(path, f"its description is not JSON ({error})") from None
    if not isinstance(description, dict):
        raise _refusal(path, "its description is no object")
    return description, arrays, header.get("written_by", "an unknown version")


def _check_header(path: Path, kind: ContainerKind, header: Mapping[str, str]) -> None:
    if header.get("format") != kind.format:
        raise _refusal(path, f"it is a safetensors file, but not one that {kind.writer} wrote")
    version = header.get("format_version", "")
    # A header may hold anything; int() of very long digits is slow, or fails.
    if not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise _refusal(
            path, f"its format version {version!r:.80} is no number: the file is damaged"
        )
    if int(version) > kind.version:
        raise _refusal(
            path,
            f"it was written by robustruct {header.get('written_by', '?')} with format {version}, "
            f"but this is robustruct {__version__}, which reads formats up to {kind.version}; "
            "upgrade robustruct",
        )
    if int(version) < kind.oldest:
        raise _refusal(
            path,
            f"it was written by robustruct {header.get('written_by', '?')} with format {version}, "
            f"whose parts have other meanings (oldest that is read: {kind.oldest}); fit again, and "
            f"write it with {kind.writer}",
        )


def _refusal(path: Path, reason: str) -> InvalidInputError:
    return InvalidInputError(f"cannot load {os.fspath(path)!r}: {reason}.")


def checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of a text and of the name, type, shape and bytes of every array."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _flush(path: str) -> None:
    """Sync a file to disk, so that its bytes are there before its name is."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _flush_folder(path: str) -> None:
    """Sync a folder to disk, so that a renamed file survives a crash; not on Windows."""
    if os.name == "nt":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
