"""Where output goes: to standard output, or to a file that is complete or not there.

A regular file is written beside its place first. Anything else that may have a name, such as a
device or a pipe, is written to as it is: to put a regular file in its place would destroy it.
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
_MOST_LINKS = 40  # as many as Linux follows


@contextmanager
def opened_output(path: str | None) -> Iterator[BinaryIO]:
    """Yields a stream of bytes; a regular file gets its name only when all is written."""
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
    """The file itself, or what compresses into it if its name asks for that."""
    if not path.endswith(".gz"):
        yield file
        return
    with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        yield cast(BinaryIO, packed)


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the name of a new file, which takes the place of ``path`` if all goes well.

    The file that was there passes on its permissions and, where that is allowed, its owner; a new
    one is as any program would make it. A link stays a link.
    """
    target = os.path.realpath(checked_path(path))
    unfinished = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        made = os.stat(unfinished)
        wanted = os.stat(target) if os.path.exists(target) else made
        mode = stat.S_IMODE(wanted.st_mode)
        os.chmod(unfinished, mode)  # before anything private is inside
        yield unfinished
        if hasattr(os, "chown") and (wanted.st_uid, wanted.st_gid) != (made.st_uid, made.st_gid):
            with contextlib.suppress(OSError):
                os.chown(unfinished, wanted.st_uid, wanted.st_gid)
        os.chmod(unfinished, mode)  # writers may have put a file of their own there
        os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether something is there that cannot be replaced: a device, a pipe, an open descriptor."""
    name = checked_path(path)
    return os.path.exists(name) and (not os.path.isfile(name) or _is_descriptor(name))


def opened_special(path: str | os.PathLike[str]) -> BinaryIO:
    """What `is_special` found, for writing; nothing is created or cut off."""
    name = checked_path(path)
    # A file behind a descriptor may hold something: `>> log` asks to write behind that.
    where = os.O_APPEND if _is_descriptor(name) else 0
    return open(os.open(name, os.O_WRONLY | where), "wb")


def _is_descriptor(path: str) -> bool:
    """Whether a name such as /dev/stdout leads to what is open already, maybe a regular file."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
        if _DESCRIPTORS.fullmatch(folder):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(folder, os.readlink(path))
    return False


def checked_path(path: str | os.PathLike[str]) -> str:
    """The name of a file as text, or an error if no file can have it."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or "\0" in name:
        raise InvalidInputError(
            f"{name!r:.80} cannot name a file; give text without zero characters, or a path."
        )
    return name
