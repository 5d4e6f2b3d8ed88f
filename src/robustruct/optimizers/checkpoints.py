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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from robustruct.errors import IncompatibleError, InvalidInputError, warn
from robustruct.formats.container import Arrays, ContainerKind, read_container, write_container
from robustruct.formats.output import checked_path
from robustruct.formats.text import shown
from robustruct.optimizers.certificates import Resumable, inside

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHECKPOINT = ContainerKind("robustruct-checkpoint", 6, "a fit with checkpoint=...")
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
            f"every={every!r}; give a number of passes, such as 10, or a time, such as "
            "'30s', '10min' or '2h'."
        )
    return float(every), np.inf


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit keeps its state, how often, and whether it goes on from what is there.

    Parameters
    ----------
    folder : path
        Each file in it holds all of the state; the last two stay. A folder that holds checkpoints
        already is refused unless ``resume`` is set.
    every : int or str
        Passes between checkpoints, or time as "30s", "10min" or "2h". With every checkpoint of a
        CRF its L-BFGS starts with an empty memory, which is not kept: make them rare.
    resume : bool
        Go on from the newest checkpoint in the folder that is not damaged, on the same path as if
        training had never been stopped; start where there is none. Samples and parameters must
        be the same, except that ``tol``, ``max_iter``, ``every``, ``n_jobs`` and ``verbose`` may
        differ.

    Examples
    --------
    >>> Checkpoint("fit-of-monday", every="10min", resume=True)
    Checkpoint(folder='fit-of-monday', every='10min', resume=True)
    """

    folder: str | os.PathLike[str]
    every: int | str = "60s"
    resume: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike):
            raise InvalidInputError(f"folder={self.folder!r}; give the path of a folder.")
        interval(self.every)
        if not isinstance(self.resume, bool | np.bool_):
            raise InvalidInputError(f"resume={self.resume!r}; give True or False.")


def kept_in(folder: str | os.PathLike[str]) -> list[str]:
    """Names of the checkpoints in a folder, oldest first; none if there is no such folder."""
    if not os.path.isdir(folder):
        return []
    found = [match for name in os.listdir(folder) if (match := NAME.fullmatch(name))]
    return [match[0] for match in sorted(found, key=lambda match: int(match[1]))]


# ------------------------------------------------------------------------- files from anywhere

GROWING = {
    "history": (0,),
    "pair": (1,),
    "mass": (1,),
    "atom": (0,),
    "mixed_gains": (0,),
    "mixed_moments": (0,),
}
"""Dimensions in which the array of a checkpoint may be longer than that of a fit that begins."""
UNBOUNDED = (
    "primal",
    "dual",
    "history",
    "loss",
    "record",
    "seen",
    "least_gap",
    "gap",
    "given",
    "regrets",
    "last_gap",
    "last_temperature",
    "optimism",
)
"""What may be infinite while nothing is known; all other numbers are finite."""
RANGES = {
    "kappa": (1e-300, 1e300),
    "eagerness": (0.0, 1.0),
    "mu": (1e-3, 1.0),
    "mu_step": (0.1, 10.0),
    "at_once": (1, 8),
    "inner": (1, 64),
}
"""Of single numbers; the others are counts and seconds."""


def _check_description(description: dict[str, Any], path: str) -> None:
    """Refuse what no fit has written, although its checksum is right."""
    identity, seed = description.get("identity"), description.get("seed", 0)
    sound = isinstance(identity, dict) and type(seed) is int and 0 <= seed < 2**31
    if not sound:
        raise InvalidInputError(f"cannot load {path!r}: it does not describe a checkpoint.")


def _fault(found: Arrays, expected: Arrays, optional: Arrays) -> str | None:
    """What is wrong with a part of a checkpoint, given the state of a fit that begins.

    ``optional``: what may be there as well once a fit is under way.
    """
    elsewhere = not inside("shards", found) or not inside("shards", expected)  # these start again
    for name in expected:
        if name not in found and not (elsewhere and name.startswith("shards.")):
            return f"{name} is missing"
    for name, array in found.items():
        if elsewhere and name.startswith("shards."):
            continue
        like = expected.get(name, optional.get(name))
        if like is None:
            return f"{name} is not known"
        key, single = name.rpartition(".")[2], like.ndim == 0
        if not _same_form(array, np.atleast_1d(like), GROWING.get(key, ())):
            return f"{name} has type {array.dtype} and shape {array.shape}"
        bad = ~np.isfinite(array)
        if key in UNBOUNDED:
            bad = np.isnan(array)
            if key in ("history", "record"):  # the number of the pass
                bad[..., 0] = ~(np.abs(array[..., 0]) < 2**31)
        elif single:
            low, high = RANGES.get(key, (0.0, 2.0**31))
            bad = ~((low <= array) & (array <= high))
        if bad.any():
            return f"{name} holds {array[bad].flat[0]}"
    if len(found.get("mixed_gains", ())) != len(found.get("mixed_moments", ())):
        return "mixed_gains and mixed_moments differ in length"
    if 0 < len(optional.keys() & found.keys()) < len(optional):
        return f"{' or '.join(optional)} is missing"
    for name, array in found.items():
        if name.rpartition(".")[2] in ("p0", "r") and not (elsewhere and name.startswith("shards")):
            off = np.abs(array.sum(axis=1) - 1.0).max(initial=0.0)
            # Rounding of many steps is far less; what is more would lead kernels astray.
            if (array < -1e-6).any() or off > 1e-6:
                return f"{name} is no distribution"
    return None if elsewhere else _bad_lists(found)


def _same_form(array: np.ndarray, like: np.ndarray, growing: tuple[int, ...]) -> bool:
    if array.ndim != like.ndim or array.dtype != like.dtype:
        return False
    sizes = enumerate(zip(array.shape, like.shape, strict=True))
    return all(a == b or (axis in growing and a > b) for axis, (a, b) in sizes)


def _bad_lists(found: Arrays) -> str | None:
    """Whether a list of pairs or labellings leads out of its arrays; kernels do not look."""
    for name in found:
        start, _, key = name.rpartition(".")
        if key != "count":
            continue
        r, count, mass = (found.get(f"{start}.{other}") for other in ("r", "count", "mass"))
        codes, most = found.get(f"{start}.pair"), 2
        if codes is None:
            codes, most = found.get(f"{start}.atom"), 1
        if r is None or count is None or mass is None or codes is None:
            return f"{name} stands alone"
        k = r.shape[1] ** most
        slots = mass.shape[1]
        room = codes.shape[1] if most == 2 else codes.shape[0]
        if room != slots or (count < 0).any() or (count > slots).any():
            return f"{name} counts more than there is"
        if (codes < 0).any() or (codes >= k).any():
            return f"{start} names labels that there are not"
        if (mass < -1e-6).any():
            return f"{start}.mass is negative"
    return None


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
        self.folder = os.path.abspath(checked_path(folder))
        self.passes, self.seconds = interval(every)
        try:
            os.makedirs(self.folder, exist_ok=True)
            self.found = kept_in(self.folder)
        except OSError as error:
            raise OSError(f"checkpoint={os.fspath(folder)!r} cannot be used: {error}.") from error
        for name in self.found:
            if not os.path.isfile(os.path.join(self.folder, name)):
                raise InvalidInputError(
                    f"{name} in {self.folder!r} is no checkpoint but a folder, a pipe or a device; "
                    "remove it, or name another folder in checkpoint=..."
                )
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
                description, arrays, _ = read_container(path, CHECKPOINT)
                _check_description(description, path)
                self.description, self._arrays = description, arrays
            except InvalidInputError as error:
                refused.append(str(error))
                continue
            self._last_good = name
            break
        if refused and self._last_good is None:
            raise InvalidInputError(
                f"none of the checkpoints in {self.folder!r} can be read. {' '.join(refused)} "
                "Remove them to start again."
            )
        for reason in refused:
            warn(f"{reason} Going on from {self._last_good} instead.")

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
                differences.append(f"{name:.80} was {shown(old)} and is {shown(new)}")
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

    def restore(self, reached: Resumable) -> None:
        """Put the optimizer, and all parts, into the state found, if there is any."""
        if self._arrays is None:
            return
        everything: dict[str, Keepable] = {**self.parts, "optimizer": reached}
        states = {title: inside(title, self._arrays) for title in everything}
        for title, part in everything.items():  # all, before any is changed
            expected = part.state()
            later: Arrays = {}
            if title == "stopping":  # the best weights so far
                later = {"theta": self.parts["progress"].state()["theta"], "record": np.zeros(5)}
            fault = _fault(states[title], expected, later)
            if fault is not None:
                raise InvalidInputError(
                    f"cannot go on from {self._last_good} in {self.folder!r}: "
                    f"{title}.{fault:.200}, which no fit has written. Remove the checkpoint."
                )
        for title, part in everything.items():
            try:
                part.restore(states[title])
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"cannot go on from {self._last_good} in {self.folder!r}: {error!s:.400} No "
                    "fit has written that. Remove the checkpoint."
                ) from None
        self._arrays = None  # as large as the state itself
        self._kept_pass = reached.n_passes

    def due(self, n_passes: int) -> bool:
        """Whether it is time for the next checkpoint."""
        waited = time.monotonic() - self._kept_at
        return n_passes - self._kept_pass >= self.passes or waited >= self.seconds

    def keep(self, reached: Resumable) -> None:
        """Write the state after a whole pass, and remove all files but the last two sound ones."""
        name = f"checkpoint-{reached.n_passes:06d}.safetensors"
        everything: dict[str, Keepable] = {**self.parts, "optimizer": reached}
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
        self._kept_at, self._kept_pass = time.monotonic(), reached.n_passes
