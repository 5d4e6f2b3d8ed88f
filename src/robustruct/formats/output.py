"""Opens outputs: standard output, or a file that is either complete or absent.

A regular file is written beside its place and renamed. A device or a pipe is written to directly:
renaming a regular file to its place would destroy it.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from robustruct.errors import InvalidInputError

_DESCRIPTORS = re.compile(r"/proc/\d+(/task/\d+)?/fd|/dev/fd")
_MOST_LINKS = 40  # Linux follows as many before it gives up


@contextmanager
def opened_output(path: str | None) -> Iterator[BinaryIO]:
    """Yield a stream of bytes; a regular file gets its name only when all is written."""
    if path is None or path == "-":
        if sys.stdout is None:
            raise OSError("standard output is closed; name a file to write to (-o FILE).")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if is_special(path):
        with opened_special(path) as file:
            yield from _packed(file, path)
        return
    with replaced(path) as unfinished, open(unfinished, "wb") as file:
        yield from _packed(file, path)


def _packed(file: BinaryIO, path: str) -> Iterator[BinaryIO]:
    """Yield the file, or a gzip stream into it if its name ends with .gz."""
    if not path.endswith(".gz"):
        yield file
        return
    with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        yield cast(BinaryIO, packed)


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a new file, which replaces ``path`` unless an exception is raised.

    The new file gets the permissions of the old one and, where allowed, its owner. A link stays a
    link.
    """
    target = os.path.realpath(checked_path(path))
    unfinished = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        # Created with the permissions that any program would give (umask).
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        created = os.stat(unfinished)
        wanted = os.stat(target) if os.path.exists(target) else created
        mode = stat.S_IMODE(wanted.st_mode)
        os.chmod(unfinished, mode)  # before anything private is inside
        yield unfinished
        if hasattr(os, "chown") and (wanted.st_uid, wanted.st_gid) != (
            created.st_uid,
            created.st_gid,
        ):
            with contextlib.suppress(OSError):
                os.chown(unfinished, wanted.st_uid, wanted.st_gid)
        os.chmod(unfinished, mode)  # a writer may have replaced the file by one of its own
        os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` cannot be replaced: a device, a pipe, an open descriptor."""
    name = checked_path(path)
    return os.path.exists(name) and (not os.path.isfile(name) or _is_descriptor(name))


def opened_special(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a special file for writing; nothing is created or truncated."""
    name = checked_path(path)
    # A descriptor may lead to a file with content: `>> log` asks to append.
    where = os.O_APPEND if _is_descriptor(name) else 0
    return open(os.open(name, os.O_WRONLY | where), "wb")


def _is_descriptor(path: str) -> bool:
    """Return whether a name such as /dev/stdout leads to an open descriptor."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
        if _DESCRIPTORS.fullmatch(folder):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(folder, os.readlink(path))
    return False


def checked_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text; refuse what cannot name a file."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or "\0" in name:
        raise InvalidInputError(
            f"{name!r:.80} cannot name a file; give text without zero characters, or a path."
        )
    return name
