"""A change of the weights in which few rows of them take part; see `WeightChange`."""

from robustruct.kernels._jit import helper


@helper
def add_features(row, features, to, out_of, theta, change, used, gain, norm):
    """Row ``row`` of the features goes to column ``to``, and leaves column ``out_of``.

    used: the lines in use; gain and norm: <theta, change> and |change|², each row of it times its
    pace. Return what they become.
    """
    paced = len(change.pace) > 0
    for at in range(features.indptr[row], features.indptr[row + 1]):
        x = features.data[at]
        feature = features.indices[at]
        line = change.line_of[feature]
        if line < 0:
            line = used
            change.line_of[feature] = line
            change.row_of[line] = feature
            used += 1
        gain += x * (theta[feature, to] - theta[feature, out_of])
        bend = 2.0 * x * (change.values[line, to] - change.values[line, out_of] + x)
        norm += change.pace[feature] * bend if paced else bend
        change.values[line, to] += x
        change.values[line, out_of] -= x
    return used, gain, norm


@helper
def _keep_row(row, theta, kept):
    """Keep a row of theta as it is."""
    at = kept.count[0]
    kept.place[row] = at
    for y in range(theta.shape[1]):
        kept.values[at, y] = theta[row, y]
    kept.count[0] = at + 1


@helper
def apply_features(row, features, to, out_of, step, theta, change):
    """theta -= step * pace * change, and change <- 0, where `add_features` put something."""
    values, place, paced = change.values, change.kept.place, len(change.pace) > 0
    for at in range(features.indptr[row], features.indptr[row + 1]):
        feature = features.indices[at]
        if len(place) > 0 and place[feature] < 0:
            _keep_row(feature, theta, change.kept)
        line = change.line_of[feature]
        own = step * change.pace[feature] if paced else step
        theta[feature, to] -= own * values[line, to]
        values[line, to] = 0.0
        theta[feature, out_of] -= own * values[line, out_of]
        values[line, out_of] = 0.0


@helper
def free_lines(used, change):
    """No row has a line any more."""
    for line in range(used):
        change.line_of[change.row_of[line]] = -1
