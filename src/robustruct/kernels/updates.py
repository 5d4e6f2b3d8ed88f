"""Changes of θ as they travel between workers: entries and how much they changed, in float32.

base    (weights,) θ as all workers have it
starts, ends    of the stretches of θ that the samples of a worker can change
index   entries of θ; value their changes
marks   (blocks,) bool, which blocks of BLOCK entries have changed
"""

from robustruct.kernels._jit import kernel

BLOCK = 64  # entries that are looked through together


@kernel
def copy_stretches(theta, starts, ends, base):
    """base <- θ, where the samples can change it."""
    for i in range(len(starts)):
        for j in range(starts[i], ends[i]):
            base[j] = theta[j]


@kernel
def take_changes(theta, base, starts, ends, part, index, value):
    """Into index and value: ``part`` of what θ has changed by; θ is ``base`` again.

    Return how many there are.
    """
    count = 0
    for i in range(len(starts)):
        for j in range(starts[i], ends[i]):
            if theta[j] != base[j]:
                index[count] = j
                value[count] = part * (theta[j] - base[j])
                theta[j] = base[j]
                count += 1
    return count


@kernel
def add_entries(to, first, index, value):
    """to += the changes; its first entry is that of weight ``first``."""
    for i in range(len(index)):
        to[index[i] - first] += value[i]


@kernel
def add_all(to, value):
    """to += value, which has every entry."""
    for j in range(len(to)):
        to[j] += value[j]


@kernel
def mark_entries(first, index, marks):
    """Take note of the blocks of some entries; the first block begins with weight ``first``."""
    for i in range(len(index)):
        marks[(index[i] - first) // BLOCK] = True


@kernel
def take_entries(sums, first, marks, index, value):
    """Into index and value: the entries of ``sums`` that are not 0, which then are.

    Return how many there are. Only blocks that are marked are looked through.
    """
    count = 0
    for block in range(len(marks)):
        if not marks[block]:
            continue
        marks[block] = False
        for j in range(block * BLOCK, min(block * BLOCK + BLOCK, len(sums))):
            if sums[j] != 0.0:
                index[count] = first + j
                value[count] = sums[j]
                sums[j] = 0.0
                count += 1
    return count


@kernel
def square(value):
    """Σ value², in float64 and in order."""
    total = 0.0
    for i in range(len(value)):
        total += float(value[i]) ** 2
    return total
