"""Where output goes: to standard output, or to a file that is complete or not there."""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast


@contextmanager
def opened_output(path: str | None) -> Iterator[BinaryIO]:
    """Yields a stream of bytes; a file gets its name only when all is written."""
    if path is None or path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = os.path.realpath(path)
    unfinished = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        with open(unfinished, "wb") as file:
            if path.endswith(".gz"):
                with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield file
        os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
