"""Hostile input: texts, bytes and values of JSON, drawn so that they can be drawn again."""

from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator

TOKENS = [
    "", " ", "\t", "\n", "\r", "\r\n", "\n\n", "\0", "\ufeff", "\u2028", "\u00a0", "\x1c", "\\",
    "\\\\",
    ":", "=", ">", "<", "*", ",", ";", '"', "'", "#", "# x", "@weight:2", "@weight:nan", "%x[0,0]",
    "%x[-1,0]", "%x[", "]", "[", "{", "}", "%lower[3,1]", "%prefix[0,0,2]", "%suffix[0,0,99999999]",
    "%x[300000000,0]", "%x[1180591620717411303424,0]", "%shape[-900000,0]", "U", "B", "B01:%x[0,0]",
    "O", "B-PER", "I-PER", "0", "1", "-1", "1.5", "1e999", "-inf", "nan", "1_0", "٣", "9" * 400,
    "9" * 5000, "x" * 3000, "true\\predicted", "predicted/true", "word", "ü", "日本", "😀",
    "\u0301",
    "_B-1", "null", "true", "NaN", "Infinity", "[[[[", "{}", '{"nodes": [["a"]], "labels": ["x"]}',
]  # fmt: skip

BYTES = [
    b"\xff",
    b"\x80",
    b"\xed\xa0\x80",
    b"\x1f\x8b",
    b"PAR1",
    b"\xff\xfe",
    b"\0",
    b"\xc3",
    b"\n",
]


def work_folder() -> Path:
    """A folder for the inputs of one process, in memory where there is such a file system."""
    memory = "/dev/shm"
    usable = os.path.isdir(memory) and os.access(memory, os.W_OK)
    return Path(tempfile.mkdtemp(prefix="robustruct-fuzz-", dir=memory if usable else None))


def pick(rng: Rng, items: Any) -> Any:
    """One of the items."""
    return items[int(rng.integers(len(items)))]


def chance(rng: Rng, share: float) -> bool:
    """True in this share of all cases."""
    return bool(rng.random() < share)


def text(rng: Rng) -> str:
    """A few tokens, joined."""
    return pick(rng, ("", " ", "\t", "\n", ",")).join(
        pick(rng, TOKENS) for _ in range(int(rng.integers(1, 12)))
    )


def mutated_bytes(rng: Rng, content: bytes) -> bytes:
    """The same with a few changes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(3)) + chance(rng, 0.7)):
        place = int(rng.integers(len(data) + 1))
        end = min(len(data), place + int(rng.integers(1, 20)))
        match int(rng.integers(7)):
            case 0 if place < len(data):
                data[place] ^= 1 << int(rng.integers(8))
            case 1:
                data[place:place] = pick(rng, BYTES)
            case 2:
                data[place:place] = pick(rng, TOKENS).encode("utf-8", "surrogatepass")
            case 3:
                del data[place:end]
            case 4:
                data[place:place] = data[place:end]
            case 5:
                data[place:end] = pick(rng, TOKENS).encode("utf-8", "surrogatepass")
            case 6 if chance(rng, 0.3):
                del data[place:]
    return bytes(data)


def mutated_text(rng: Rng, content: str) -> bytes:
    """Often the text with hostile tokens in it, sometimes anything."""
    if chance(rng, 0.1):
        return text(rng).encode("utf-8", "surrogatepass")
    return mutated_bytes(rng, content.encode())


SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 5, 2**31, 2**53 + 1, -(2**63), 2**63, 2**70, 10**400, 0.0, -0.5,
    1e-300, 1e300, float("nan"), float("inf"), -float("inf"), "", "a", "A", "\0", "a\0", "\ud800",
    10**4000, 1e308, 5e-324, 1e100, "O", "B-x", "I-x", "x" * 2000, "<U1000000000", "exact",
    "map", "predictor", "tuple", "float", "1e999",
]  # fmt: skip


def value(rng: Rng, depth: int = 3) -> Any:
    """Anything that JSON can say."""
    kind = int(rng.integers(6)) if depth else 0
    if kind == 4:
        return [value(rng, depth - 1) for _ in range(int(rng.integers(4)))]
    if kind == 5:
        names = ("a", "b", "nodes", "array", "items", "dict", "tuple", "set", "float", "records")
        return {pick(rng, names): value(rng, depth - 1) for _ in range(int(rng.integers(3)))}
    return pick(rng, SCALARS)


def mutated_value(rng: Rng, tree: Any) -> Any:
    """A copy of what JSON says, changed in a few places."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(tree))
        if not places:
            return value(rng)
        holder, key = pick(rng, places)
        match int(rng.integers(6)):
            case 0:
                del holder[key]
            case 1:
                other, name = pick(rng, places)
                holder[key] = copy.deepcopy(other[name])
            case 2 if isinstance(holder, dict):
                holder[str(pick(rng, SCALARS))] = holder.pop(key)
            case 3 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case _:
                holder[key] = value(rng)
    return tree


def _places(tree: Any) -> Any:
    """(container, key) of everything inside."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


NUMBERS = [
    0, 1, -1, 2, 7, 127, 2**31 - 1, np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.5, 1e308,
    5e-324,
]  # fmt: skip
DTYPES = [np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_, np.float16]


def mutated_arrays(rng: Rng, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A copy of the arrays, one of them changed in value, type, shape or name."""
    arrays = {name: array.copy() for name, array in arrays.items()}
    name = pick(rng, sorted(arrays))
    array = arrays[name]
    with np.errstate(all="ignore"):
        match int(rng.integers(12)):
            case 0:
                del arrays[name]
            case 1:
                arrays[name] = array.reshape(-1)[: int(rng.integers(array.size + 1))].copy()
            case 2:
                arrays[name] = np.concatenate([array.reshape(-1)] * 2)
            case 3:
                arrays[name] = array.astype(pick(rng, DTYPES))
            case 4:
                arrays[name] = array[None]
            case 5:
                arrays[name] = arrays[pick(rng, sorted(arrays))]
            case 6:
                arrays[ascii(pick(rng, SCALARS))] = arrays.pop(name)
            case 7 if array.ndim:
                axis = int(rng.integers(array.ndim))
                arrays[name] = np.concatenate([array, array], axis=axis)
            case 8 if array.size:
                flat = array.reshape(-1)
                arrays[name] = flat[rng.permutation(array.size)].reshape(array.shape)
            case 9:
                factor = pick(rng, (0.5, 2.0, -1.0, 1e6, 1e-6))
                arrays[name] = (array * factor).astype(array.dtype)
            case _ if array.size:
                flat = array.reshape(-1)
                some = rng.integers(array.size, size=int(rng.integers(1, 4)))
                flat[some] = np.asarray(pick(rng, NUMBERS)).astype(array.dtype)
                arrays[name] = flat.reshape(array.shape)
    return arrays
