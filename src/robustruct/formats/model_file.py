"""The container of model files: named arrays and a JSON description, in the safetensors format.

The safetensors header holds, as strings,

    format           "robustruct-model"
    format_version   an integer; a reader refuses files newer than itself
    written_by       version of robustruct
    description      JSON: everything that is not an array
    sha256           over the description and the name, type, shape and bytes of every array

Nothing in a file is ever executed. What a description means is up to `robustruct.models.storage`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from robustruct._version import __version__
from robustruct.errors import InvalidInputError

FORMAT = "robustruct-model"
FORMAT_VERSION = 1

Path = str | os.PathLike[str]
Arrays = dict[str, np.ndarray]


def write_model_file(path: Path, description: Mapping[str, Any], arrays: Arrays) -> None:
    """Write the file beside ``path`` first and put it in its place when it is complete."""
    text = json.dumps(description, ensure_ascii=True, allow_nan=False)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "written_by": __version__,
        "description": text,
        "sha256": _checksum(text, arrays),
    }
    target = os.path.realpath(path)  # a link stays a link
    unfinished = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        save_file(arrays, unfinished, header)
        _flush(unfinished)
        os.replace(unfinished, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        if isinstance(error, SafetensorError):
            raise OSError(f"cannot write {os.fspath(path)!r}: {error}") from error
        raise


def read_model_file(path: Path) -> tuple[dict[str, Any], Arrays, str]:
    """(description, arrays, version of robustruct that wrote them)."""
    with open(path, "rb"):  # the operating system's own errors: absent, a folder, not allowed
        pass
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check_header(path, header)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _refusal(path, f"it is damaged, or no safetensors file ({error})") from None
    text = header.get("description", "")
    if _checksum(text, arrays) != header.get("sha256"):
        raise _refusal(path, "its checksum does not match: the file is damaged or was changed")
    return json.loads(text), arrays, header.get("written_by", "an unknown version")


def _check_header(path: Path, header: Mapping[str, str]) -> None:
    if header.get("format") != FORMAT:
        raise _refusal(path, "it is a safetensors file, but not one that model.save() wrote")
    version = header.get("format_version", "")
    if not version.isdigit():
        raise _refusal(path, f"its format version {version!r} is no number: the file is damaged")
    if int(version) > FORMAT_VERSION:
        raise _refusal(
            path,
            f"it was written by robustruct {header.get('written_by', '?')} with format {version}, "
            f"but this is robustruct {__version__}, which reads formats up to {FORMAT_VERSION}; "
            "upgrade robustruct",
        )


def _refusal(path: Path, reason: str) -> InvalidInputError:
    return InvalidInputError(f"cannot load {os.fspath(path)!r}: {reason}.")


def _checksum(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _flush(path: str) -> None:
    """Make sure that the bytes are on the disk before the name points to them."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


# ------------------------------------------------------------------------- strings as arrays


def packed_strings(strings: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """(all strings as UTF-8 bytes, (n+1,) where each begins); for millions of them."""
    pieces = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=offsets[1:])
    return np.frombuffer(b"".join(pieces), np.uint8), offsets


def unpacked_strings(data: np.ndarray, offsets: np.ndarray) -> list[str]:
    """The strings that ``packed_strings`` packed."""
    blob, cuts = data.tobytes(), offsets.tolist()
    if blob.isascii():  # one letter a byte: much faster
        text = blob.decode()
        return [text[first:last] for first, last in itertools.pairwise(cuts)]
    return [
        blob[first:last].decode("utf-8", "surrogatepass")
        for first, last in itertools.pairwise(cuts)
    ]
