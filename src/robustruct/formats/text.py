"""Lines of text files: plain or gzip, a path or standard input, with numbers for messages.

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
from types import TracebackType
from typing import Self, cast

from robustruct.errors import FileFormatError, InvalidInputError, MissingDataError
from robustruct.formats.output import checked_path
from robustruct.formats.parquet import MARK, rows_as_json

Path = str | os.PathLike[str]

STANDARD_INPUT = "-"
LONGEST = 2**28
"""Bytes of a line; a small compressed file could else fill the memory."""
AHEAD = 2**24
"""Characters that `Lines.head` keeps, unless a single line has more."""
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class Lines:
    """The lines of a text file without their ends; to be read once.

    Recognised are gzip and Parquet, whatever the name, the byte order mark of UTF-8, and lines that
    end as on Windows. Bytes that are no text are an error that names the line.

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
        """Number of the line that was read last, from 1."""
        self._file = _opened(self.path)
        try:
            head = self._file.peek(4)
        except OSError as error:
            raise self._unreadable(error) from None
        self._bytes = self._file
        if head.startswith(b"\x1f\x8b"):  # gzip's own mark; its own lines are slow
            self._bytes = io.BufferedReader(gzip.GzipFile(fileobj=self._file), 2**16)
        self.is_parquet = head.startswith(MARK)
        self._ahead: list[str] = []
        self._rest = self._decoded()
        if self.is_parquet:
            self._rest = rows_as_json(self._file, self.name)

    def __iter__(self) -> Iterator[str]:
        while True:
            if self._ahead:
                line = self._ahead.pop()
            else:
                found = next(self._rest, None)
                if found is None:
                    return
                line = found
            self.number += 1
            yield line

    def head(self, n: int) -> list[str]:
        """The next n lines, fewer if they are very long or the last ones; they stay to be read."""
        lines = self._ahead[::-1]
        size = sum(map(len, lines))
        while len(lines) < n and size < AHEAD:
            line = next(self._rest, None)
            if line is None:
                break
            lines.append(line)
            size += len(line)
        self._ahead = lines[::-1]
        return lines[:n]

    def error(self, message: str, line: int | None = None) -> FileFormatError:
        """An error about a line, by default the last one read."""
        return FileFormatError(self.name, self.number if line is None else line, message)

    @property
    def fraction(self) -> float | None:
        """How much of the file has been read; None if its size is not known."""
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

    def _decoded(self) -> Iterator[str]:
        number = 0
        try:
            for raw in iter(partial(self._bytes.readline, LONGEST + 1), b""):
                number += 1
                if number == 1:
                    raw = self._without_mark(raw)
                if len(raw) > LONGEST:
                    raise self.error(
                        f"the line is longer than {LONGEST:,} bytes; put samples into lines of "
                        "their own.",
                        number,
                    )
                text = raw.decode(self.encoding)
                if "\0" in text:
                    raise self.error(
                        "it holds a zero byte, so it is a binary file; give a text file.", number
                    )
                text = text.rstrip("\r\n")
                if number == 1 and "\r" in text:
                    raise self.error(
                        "its lines end with a carriage return alone, as on old Macs; convert it: "
                        "tr '\\r' '\\n' < OLD > NEW.",
                        number,
                    )
                yield text
        except UnicodeError as error:
            found = "something in it"
            if isinstance(error, UnicodeDecodeError):
                found = f"the byte 0x{error.object[error.start]:02x}"
            raise self.error(
                f"{found} is not {self.encoding.upper()}. If the file is in another "
                "encoding, name it (--encoding latin-1) or convert the file to UTF-8.",
                number,
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.error(f"the gzip file is damaged or cut off ({error}).", number) from None
        except OSError as error:
            raise self._unreadable(error) from None

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
    """A value as it appears in messages, cut short if it is long."""
    text = repr(value[: 2 * most]) if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"
