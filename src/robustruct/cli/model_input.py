"""Models in files, for predict, evaluate and inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustruct.cli.errors import BadInputError, blamed_on_input
from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.cli.options import TableOptions
    from robustruct.evaluation.held_out import HeldOutFile
    from robustruct.formats.sample import Format
    from robustruct.formats.text import Lines
    from robustruct.models.base import StructuredModel


def load_model(path: str, decision: str | None = None) -> StructuredModel:
    """Load a model, and change its decision rule if ``decision`` is given."""
    from robustruct.models.parameters import check_parameters, needs_probabilities
    from robustruct.models.storage import load

    try:
        with blamed_on_input():
            model = load(path)
        if decision is not None:
            check_parameters(model.set_params(decision=decision))
            if needs_probabilities(decision) and model.temperature_ == 0:
                raise InvalidInputError(
                    f"--decision {decision} needs probabilities, and {path} has none: it was "
                    "trained at temperature 0. Use map or predictor."
                )
        return model
    except FileNotFoundError:
        raise BadInputError(
            f"{path}: there is no such model; `robustruct train DATA -o {path}` makes one."
        ) from None
    except OSError as error:
        raise BadInputError(f"{path}: it cannot be read: {error.strerror}.") from None


def format_for(model: StructuredModel, lines: Lines, table: TableOptions | None = None) -> Format:
    """Return the format to read these lines in for this model; failing that is bad input."""
    from robustruct.evaluation.predict_files import input_format

    with blamed_on_input():
        return input_format(model, lines, None if table is None else table.roles())


def held_out_file(
    model: StructuredModel, path: str, encoding: str, groups: str | None = None
) -> HeldOutFile:
    """Return all samples of a labelled file; ``groups`` is the column of their groups."""
    from robustruct.evaluation.held_out import read_held_out
    from robustruct.formats.text import Lines

    with Lines(path, encoding) as lines, blamed_on_input():
        return read_held_out(model, lines, groups)
