"""Changes of θ as they travel between workers: entries and how much they changed, in float32.

theta   (rows, k) weights, in rows as long as there are labels
rows    of θ, in order
index   entries of θ, in order; value their changes
"""

from robustruct.kernels._jit import kernel


@kernel
def mark_columns(order, offsets, indptr, indices, marks):
    """Mark the columns of the features of samples ``order``."""
    for s in order:
        for at in range(indptr[offsets[s]], indptr[offsets[s + 1]]):
            marks[indices[at]] = True


@kernel
def take_changes(theta, rows, kept, place, pace, index, value):
    """Into index and value: what rows have changed by, over pace; they are as they were again.

    kept: rows of θ as they were; place: which of them each row was; pace: of each row. Return how
    many there are.
    """
    count, k = 0, theta.shape[1]
    for i in range(len(rows)):
        row, at, part = rows[i], place[i], 1.0 / pace[i]
        for y in range(k):
            change = theta[row, y] - kept[at, y]
            if change != 0.0:
                index[count] = row * k + y
                value[count] = part * change
                theta[row, y] = kept[at, y]
                count += 1
    return count


@kernel
def nonzero_entries(vector, first, index, value):
    """Into index and value: entries that are not 0; the first entry is that of ``first``."""
    count = 0
    for j in range(len(vector)):
        if vector[j] != 0.0:
            index[count] = first + j
            value[count] = vector[j]
            count += 1


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
def merge_entries(index_a, value_a, index_b, value_b, index, value):
    """Into index and value: the changes of a and b, added up; return how many there are."""
    a, b, count = 0, 0, 0
    while a < len(index_a) or b < len(index_b):
        if b == len(index_b) or (a < len(index_a) and index_a[a] < index_b[b]):
            index[count], value[count] = index_a[a], value_a[a]
            a += 1
        elif a == len(index_a) or index_b[b] < index_a[a]:
            index[count], value[count] = index_b[b], value_b[b]
            b += 1
        else:
            index[count], value[count] = index_a[a], value_a[a] + value_b[b]
            a += 1
            b += 1
        count += 1
    return count


@kernel
def squares_by_kind(index, value, kind, k, out):
    """out[kind of an entry's row] += value², in float64 and in order; rows have k entries."""
    for i in range(len(index)):
        out[kind[index[i] // k]] += float(value[i]) ** 2
