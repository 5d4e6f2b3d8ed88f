"""A change of the weights in which few rows of them take part.

change   (place (d,) int32, the line of each row of theta, -1 where it has none;
         rows (room,) int32, the row of each line; values (room, m), zero where none is in use).
         All lines are free before and after a step.
"""

import numpy as np

from robustruct.kernels._jit import helper


def no_change(n_rows, room, n_columns):
    """For changes of up to ``room`` rows of theta (n_rows, n_columns)."""
    room = min(n_rows, room)
    return (
        np.full(n_rows, -1, np.int32),
        np.empty(room, np.int32),
        np.zeros((room, n_columns)),
    )


@helper
def add_features(begin, end, indices, data, a, b, theta, change, used, gain, norm):
    """Entries begin .. end-1 of a feature matrix go to column a, and leave column b.

    used: the lines in use; gain and norm: <theta, change> and |change|². Return what they become.
    """
    place, rows, values = change
    for at in range(begin, end):
        x = data[at]
        row = indices[at]
        line = place[row]
        if line < 0:
            line = used
            place[row] = line
            rows[line] = row
            used += 1
        gain += x * (theta[row, a] - theta[row, b])
        norm += 2.0 * x * (values[line, a] - values[line, b] + x)
        values[line, a] += x
        values[line, b] -= x
    return used, gain, norm


@helper
def apply_features(begin, end, indices, a, b, step, theta, change):
    """theta -= step * change, and change <- 0, where `add_features` put something."""
    place, _, values = change
    for at in range(begin, end):
        row = indices[at]
        line = place[row]
        theta[row, a] -= step * values[line, a]
        values[line, a] = 0.0
        theta[row, b] -= step * values[line, b]
        values[line, b] = 0.0


@helper
def free_lines(used, change):
    """No row has a line any more."""
    place, rows, _ = change
    for line in range(used):
        place[rows[line]] = -1
