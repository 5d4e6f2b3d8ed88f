"""Lines of text files, plain or gzip, from a path or standard input, numbered for messages.

The rows of a Parquet file are read as lines of JSON.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, islice
from types import TracebackType
from typing import Self, cast

import numpy as np

from robustruct.errors import FileFormatError, InvalidInputError, MissingDataError
from robustruct.formats.output import checked_path
from robustruct.formats.parquet import MARK, column_names, rows_as_json, table_columns

Path = str | os.PathLike[str]

STANDARD_INPUT = "-"
LONGEST = 2**28
"""Most bytes of a line: a small compressed file could otherwise fill the memory."""
BLOCK = 2**20
"""Bytes read at once: system calls are few, and a block stays in the cache."""
AHEAD = 2**24
"""Characters that `Lines.head` keeps, unless a single line has more; bounds memory."""
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class _BadLine(Exception):
    """Raised for a line that cannot be decoded; holds the converted lines before it."""

    def __init__(self, error: UnicodeError, before: bytes) -> None:
        super().__init__()
        self.error, self.before = error, before


class Lines:
    """Iterates once over the lines of a text file, without line ends.

    It recognises gzip and Parquet by content, the byte order mark of UTF-8, and line ends of
    Windows. Bytes that are no text raise an error that names the line.

    Parameters
    ----------
    path : str or path-like
        ``"-"`` is standard input.
    encoding : str
        Any in which a line ends with the byte 10: UTF-8, Latin-1, Windows code pages and so on.
    """

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        _check_encoding(encoding)
        self.path = checked_path(path)
        self.encoding = encoding
        self.name = "standard input" if self.path == STANDARD_INPUT else self.path
        self.number = 0
        """Number of the last line read, from 1."""
        self._file = _opened(self.path)
        try:
            head = self._file.peek(4)
        except OSError as error:
            raise self._unreadable(error) from None
        self._bytes = self._file
        if head.startswith(b"\x1f\x8b"):  # magic number of gzip; GzipFile alone is slow at lines
            self._bytes = io.BufferedReader(gzip.GzipFile(fileobj=self._file), 2**16)
        self.is_parquet = head.startswith(MARK)
        self._ahead: list[str] = []
        """Lines read but not yielded yet, in reverse order."""
        self._rest = self._checked()
        if self.is_parquet:
            rows = rows_as_json(self._file, self.name)
            self._rest = (f"{row}\n".encode() for row in rows)

    def __iter__(self) -> Iterator[str]:
        while self._ahead or self._read_ahead():
            self.number += 1
            yield self._ahead.pop()

    def blocks(self) -> Iterator[bytes]:
        """Yield the remaining lines in blocks of UTF-8; the caller counts them."""
        if self._ahead:
            text = "".join(f"{line}\n" for line in reversed(self._ahead))
            self._ahead = []
            yield text.encode("utf-8", "surrogatepass")
        yield from self._rest

    def _read_ahead(self) -> bool:
        """Split one more block into lines; return False at the end."""
        block = next(self._rest, None)
        if block is None:
            return False
        lines = block.decode("utf-8", "surrogatepass").removesuffix("\n").split("\n")
        self._ahead = [line.rstrip("\r") for line in reversed(lines)] + self._ahead
        return True

    def head(self, n: int) -> list[str]:
        """Return the next n lines without consuming them; fewer at the end or if very long."""
        while len(self._ahead) < n and sum(map(len, self._ahead)) < AHEAD and self._read_ahead():
            pass
        sizes = accumulate(map(len, reversed(self._ahead)), initial=0)
        before = zip(islice(reversed(self._ahead), n), sizes, strict=False)
        return [line for line, size in before if size < AHEAD]

    def columns(self) -> list[str]:
        """Return the names of the columns of a Parquet file."""
        return column_names(self._file, self.name)

    def table(self) -> dict[str, np.ndarray]:
        """Return the columns of a Parquet file."""
        return table_columns(self._file, self.name)

    @property
    def is_empty(self) -> bool:
        """Whether a text file has no lines; a Parquet file has columns at least."""
        return not (self.is_parquet or self.head(1))

    def error(self, message: str, line: int | None = None) -> FileFormatError:
        """Return an error about a line, by default the last one read."""
        return FileFormatError(self.name, self.number if line is None else line, message)

    @property
    def fraction(self) -> float | None:
        """Fraction of the file that has been read; None if its size is unknown."""
        try:
            size = os.fstat(self._file.fileno()).st_size
            return min(1.0, self._file.tell() / size) if size else None
        except (OSError, ValueError):  # a pipe
            return None

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.path != STANDARD_INPUT:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _checked(self) -> Iterator[bytes]:
        """Yield blocks of whole lines in UTF-8; lines before a fault precede its error."""
        number = 0
        begun: list[bytes] = []  # pieces of a line whose end is in a later block
        try:
            # read1 returns what is there: a pipe need not wait for a whole block.
            for raw in iter(partial(self._bytes.read1, min(BLOCK, LONGEST)), b""):
                end = raw.rfind(b"\n") + 1
                # Bytes up to the first line break belong to the line begun before.
                first = raw.find(b"\n") + 1 or len(raw)
                if sum(map(len, begun)) + first > LONGEST:
                    raise self.error(
                        f"the line is longer than {LONGEST:,} bytes; put samples into lines of "
                        "their own.",
                        number + 1,
                    )
                if not end:
                    begun.append(raw)
                    continue
                yield from self._sound_lines(b"".join([*begun, raw[:end]]), number)
                number += raw.count(b"\n", 0, end)
                begun = [raw[end:]] if end < len(raw) else []
            if begun:
                yield from self._sound_lines(b"".join(begun), number)
                number += 1
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.error(f"the gzip file is damaged or cut off ({error}).", number) from None
        except OSError as error:
            raise self._unreadable(error) from None

    def _sound_lines(self, block: bytes, number: int) -> Iterator[bytes]:
        """Yield the lines of a block up to the first that is no text; ``number`` precede it."""
        if number == 0:
            block = self._without_mark(block)
            first = block.partition(b"\n")[0].rstrip(b"\r")
            if b"\r" in first and codecs.lookup(self.encoding).name == "utf-8":
                raise self.error(
                    "its lines end with a carriage return alone, as on old Macs; convert it: "
                    "tr '\\r' '\\n' < OLD > NEW.",
                    1,
                )
        error: UnicodeError | None = None
        try:
            if codecs.lookup(self.encoding).name == "utf-8":
                block.decode()
            else:
                block = self._converted(block)
        except _BadLine as bad:
            error, block = bad.error, bad.before
        except UnicodeDecodeError as bad:
            error, block = bad, block[: block.rfind(b"\n", 0, bad.start) + 1]
        zero = block.find(b"\0")
        if zero >= 0:
            block = block[: block.rfind(b"\n", 0, zero) + 1]
        if block:
            yield block
        number += block.count(b"\n") + 1
        if zero >= 0:
            raise self.error(
                "it holds a zero byte, so it is a binary file; give a text file.", number
            )
        if error is not None:
            wrong = "something in it"
            if isinstance(error, UnicodeDecodeError):
                wrong = f"the byte 0x{error.object[error.start]:02x}"
            raise self.error(
                f"{wrong} is not {self.encoding.upper()}. If the file is in another "
                "encoding, name it (--encoding latin-1) or convert the file to UTF-8.",
                number,
            )

    def _converted(self, block: bytes) -> bytes:
        """Convert a block to UTF-8 line by line, to find the line at fault."""
        converted = []
        for line in block.split(b"\n"):
            try:
                converted.append(line.decode(self.encoding).encode("utf-8", "surrogatepass"))
            except UnicodeError as error:
                raise _BadLine(error, b"".join(b"%s\n" % one for one in converted)) from None
        return b"\n".join(converted)

    def _unreadable(self, error: OSError) -> FileFormatError:
        return FileFormatError(self.name, None, f"it cannot be read: {error.strerror or error}.")

    def _without_mark(self, raw: bytes) -> bytes:
        for mark, name in _OTHER_MARKS.items():
            if raw.startswith(mark):
                raise self.error(f"the file is in {name}; convert it to UTF-8.", 1)
        return raw.removeprefix(codecs.BOM_UTF8)


def _check_encoding(encoding: str) -> None:
    try:
        newline = "\n".encode(encoding)
    except (LookupError, ValueError, TypeError):
        raise InvalidInputError(
            f"the encoding {encoding!r:.80} is not known; try utf-8, latin-1 or cp1252."
        ) from None
    if newline != b"\n":
        raise InvalidInputError(f"files in {encoding!r} cannot be read; convert them to UTF-8.")


def _opened(path: str) -> io.BufferedReader:
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise MissingDataError("standard input is closed; name a file to read.")
        return cast(io.BufferedReader, sys.stdin.buffer)
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file.") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(path, None, f"it cannot be read: {reason}.") from None


def shown(value: object, most: int = 80) -> str:
    """Return the repr of a value for messages, cut to ``most`` characters."""
    text = repr(value[: 2 * most]) if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"
