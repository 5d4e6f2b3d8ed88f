"""Checkpoints: the state of a fit in files, from which it goes on after its process has died.

A file holds all that the passes to come depend on, so that a fit that went on takes the same path
as one that was never stopped. Orders of visits depend on the seed and the number of the pass, so
there is no generator to keep. The last two files are kept: while one is written, and should it be
damaged later, there is another.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.formats.container import Arrays, Kind, read_container, write_container
from robustruct.training.fit import Optimizer, inside

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHECKPOINT = Kind("robustruct-checkpoint", 2, "a fit with checkpoint=...")
NAME = re.compile(r"checkpoint-(\d{6,})\.safetensors")
UNFINISHED = re.compile(NAME.pattern + r"\.[0-9a-f]{8}\.tmp|\.tmp\w{6}")
"""Ours, and those that safetensors writes before it gives them our name."""
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}

Identity = Mapping[str, Any]
"""What a fit is about: names in users' words, values that JSON knows; digests begin with sha256."""


def interval(every: int | str) -> tuple[float, float]:
    """(passes, seconds) between checkpoints, one of them infinite.

    >>> interval("10min")
    (inf, 600.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|h)", every) if isinstance(every, str) else None
    if found is not None:
        return np.inf, float(found[1]) * UNITS[found[2]]
    if not isinstance(every, int | np.integer) or isinstance(every, bool) or every < 1:
        raise InvalidInputError(
            f"checkpoint_every={every!r}; give a number of passes, such as 10, or a time, such as "
            "'30s', '10min' or '2h'."
        )
    return float(every), np.inf


def kept_in(folder: str | os.PathLike[str]) -> list[str]:
    """Names of the checkpoints in a folder, oldest first; none if there is no such folder."""
    if not os.path.isdir(folder):
        return []
    found = [match for name in os.listdir(folder) if (match := NAME.fullmatch(name))]
    return [match[0] for match in sorted(found, key=lambda match: int(match[1]))]


class Keepable(Protocol):
    """What has a state to be kept."""

    def state(self) -> Arrays:
        """All that is to be kept; `restore` takes it back."""

    def restore(self, state: Arrays) -> None:
        """Go on from an earlier `state`."""


class Checkpoints:
    """The checkpoints of one fit, in a folder of their own."""

    def __init__(self, folder: str | os.PathLike[str], every: int | str, resume: bool) -> None:
        """Make the folder, or find what to go on from; refuses the work of somebody else."""
        self.folder = os.path.abspath(folder)
        self.passes, self.seconds = interval(every)
        try:
            os.makedirs(self.folder, exist_ok=True)
            self.found = kept_in(self.folder)
        except OSError as error:
            raise OSError(f"checkpoint={os.fspath(folder)!r} cannot be used: {error}.") from error
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise PermissionError(
                f"no permission to write checkpoints into {self.folder!r}; name another folder in "
                "checkpoint=..."
            )
        if self.found and not resume:
            raise InvalidInputError(
                f"{self.folder!r} already holds checkpoints; pass resume=True to go on from them, "
                "or name another folder in checkpoint=... (or remove them, if they are of no use)."
            )
        self.description: dict[str, Any] = {}
        self._arrays: Arrays | None = None
        self._last_good: str | None = None
        self._read_newest()

    def _read_newest(self) -> None:
        """Read the newest file that is sound."""
        refused = []
        for name in reversed(self.found):
            try:
                path = os.path.join(self.folder, name)
                self.description, self._arrays, _ = read_container(path, CHECKPOINT)
            except InvalidInputError as error:
                refused.append(str(error))
                continue
            self._last_good = name
            break
        if refused and self._last_good is None:
            raise InvalidInputError(
                f"none of the checkpoints in {self.folder!r} can be read. {' '.join(refused)} "
                "Remove them to begin anew."
            )
        for reason in refused:
            # This method, __init__, who opened the folder, fit, and the user's line.
            warnings.warn(f"{reason} Going on from {self._last_good} instead.", stacklevel=5)

    # ------------------------------------------------------------------------------------ one fit

    def claim(self, identity: Identity) -> None:
        """Refuse to go on from the checkpoints found unless they are of this very fit."""
        if self._arrays is not None:
            self._check(identity)
        self.description["identity"] = dict(identity)

    @contextlib.contextmanager
    def begin(self, extra: Mapping[str, Any], parts: Mapping[str, Keepable]) -> Iterator[None]:
        """While it lasts, nobody else writes here.

        ``extra`` goes into the description; what was found there wins. ``parts`` are kept and
        restored beside the optimizer.
        """
        self.description = {**extra, **self.description}
        self.parts = parts
        with self._locked():
            if kept_in(self.folder) != self.found:
                raise IncompatibleError(
                    f"another fit has written checkpoints into {self.folder!r} meanwhile; give "
                    "each fit a folder of its own."
                )
            for name in filter(UNFINISHED.fullmatch, os.listdir(self.folder)):
                os.unlink(os.path.join(self.folder, name))
            self._kept_at, self._kept_pass = time.monotonic(), 0
            yield

    def _check(self, identity: Identity) -> None:
        kept = self.description["identity"]
        differences = []
        for name in {**kept, **identity}:
            old, new = kept.get(name), identity.get(name)
            if old == new:
                continue
            if all(isinstance(value, str) and value.startswith("sha256") for value in (old, new)):
                differences.append(f"the {name} are others")
            else:
                differences.append(f"{name} was {old!r} and is {new!r}")
        if differences:
            raise IncompatibleError(
                f"the checkpoints in {self.folder!r} are of another fit: {'; '.join(differences)}. "
                "Give each fit a folder of its own."
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock, which the system takes back when the process dies."""
        if fcntl is None:
            yield
            return
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise IncompatibleError(
                f"another fit is writing its checkpoints into {self.folder!r}; wait until it is "
                "over, or give this fit a folder of its own."
            ) from None
        except OSError:
            pass  # a file system without locks
        try:
            yield
        finally:
            os.close(handle)

    def restore(self, optimizer: Optimizer) -> None:
        """Put the optimizer, and all parts, into the state found, if there is any."""
        if self._arrays is None:
            return
        everything: dict[str, Keepable] = {**self.parts, "optimizer": optimizer}
        for title, part in everything.items():
            part.restore(inside(title, self._arrays))
        self._arrays = None  # as large as the state itself
        self._kept_pass = optimizer.n_passes

    def due(self, n_passes: int) -> bool:
        """Whether it is time for the next checkpoint."""
        waited = time.monotonic() - self._kept_at
        return n_passes - self._kept_pass >= self.passes or waited >= self.seconds

    def keep(self, optimizer: Optimizer) -> None:
        """Write the state after a whole pass, and remove all files but the last two sound ones."""
        name = f"checkpoint-{optimizer.n_passes:06d}.safetensors"
        everything: dict[str, Keepable] = {**self.parts, "optimizer": optimizer}
        arrays = {
            f"{title}.{key}": value
            for title, part in everything.items()
            for key, value in part.state().items()
        }
        try:
            write_container(os.path.join(self.folder, name), CHECKPOINT, self.description, arrays)
        except OSError as error:
            left = "There is none before it."
            if self._last_good is not None:
                left = f"{self._last_good} is still there: make room and fit with resume=True."
            raise OSError(f"a checkpoint could not be written: {error}. {left}") from error
        for other in kept_in(self.folder):
            if other not in (name, self._last_good):
                with contextlib.suppress(OSError):  # untidy, but no reason to stop
                    os.unlink(os.path.join(self.folder, other))
        self._last_good = name
        self._kept_at, self._kept_pass = time.monotonic(), optimizer.n_passes
