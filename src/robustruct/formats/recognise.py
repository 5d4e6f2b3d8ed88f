"""Detects the format of a file by its name, else by its first lines."""

from __future__ import annotations

from typing import Any

from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.formats.conll import HEAD, ConllFormat
from robustruct.formats.crfsuite import WEIGHT, CrfsuiteFormat
from robustruct.formats.json_lines import JsonLinesFormat, parsed
from robustruct.formats.rows import Roles
from robustruct.formats.sample import Format
from robustruct.formats.table import TableFormat
from robustruct.formats.text import Lines, shown

FORMATS: dict[str, type[Format]] = {
    kind.name: kind for kind in (ConllFormat, CrfsuiteFormat, JsonLinesFormat, TableFormat)
}
STATE_VERSION = 1  # raised when older readers would misread a stored format

_OPTIONS = {"weight_column": "weights", "group_column": "groups"}
"""What options are called on the command line, where it is another name."""
_ENDINGS = {
    ".jsonl": JsonLinesFormat.name,
    ".ndjson": JsonLinesFormat.name,
    ".json": JsonLinesFormat.name,
    ".crfsuite": CrfsuiteFormat.name,
    ".conll": ConllFormat.name,
    ".conllu": ConllFormat.name,
    ".iob": ConllFormat.name,
    ".bio": ConllFormat.name,
}


def recognised(
    lines: Lines, name: str | None = None, *, roles: Roles | None = None, **columns: Any
) -> Format:
    """Return the format of labelled lines that have not been read yet.

    Parameters
    ----------
    lines : Lines
    name : str, optional
        "conll", "crfsuite" or "json-lines"; by default detected.
    roles : Roles, optional
        What the columns of a table mean; other formats have none.
    **columns
        Options of ``ConllFormat.found``; other formats take none.
    """
    if roles is not None:
        return TableFormat.found(lines, roles)
    if name == TableFormat.name:
        raise InvalidInputError("a table needs the roles of its columns: give roles=Roles(...).")
    if name is not None and name not in FORMATS:
        raise InvalidInputError(f"format={name!r} is not known; use one of {', '.join(FORMATS)}.")
    name = name or recognised_name(lines)
    if name == ConllFormat.name:
        return ConllFormat.found(lines, **columns)
    given = (_OPTIONS.get(name, name) for name, value in columns.items() if value is not None)
    options = [f"--{option.replace('_', '-')}" for option in given]
    if options:
        raise FileFormatError(
            lines.name,
            None,
            f"the file is in the format {name}, which has no columns: leave out "
            f"{', '.join(options)}, or say --format conll.",
        )
    return FORMATS[name].from_state({})


def recognised_name(lines: Lines) -> str:
    """Return the name of the format."""
    path = lines.path.lower().removesuffix(".gz")
    if path.endswith(".csv"):
        raise FileFormatError(
            lines.name,
            None,
            "it is a table; name the column that tells samples apart (--by COLUMN), and those of "
            "their order (--order) and labels (--label).",
        )
    for ending, name in _ENDINGS.items():
        if path.endswith(ending):
            return name
    # Standard input and other names tell nothing: look inside.
    head = [line for line in lines.head(HEAD) if line.strip()]
    if not head:
        raise FileFormatError(lines.name, None, "the file is empty.")
    if _is_json(head[0]):
        return JsonLinesFormat.name
    return CrfsuiteFormat.name if _looks_like_crfsuite(head) else ConllFormat.name


def _is_json(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(parsed(line), dict)
    except InvalidInputError:
        return line.lstrip().startswith('{"')  # broken JSON rather than a token


def _looks_like_crfsuite(head: list[str]) -> bool:
    """Return whether lines hold a label, then attributes, most of them name=value.

    Varying numbers of fields alone are no sign: a column may just be missing.
    """
    if any(line.startswith(f"{WEIGHT}:") for line in head):
        return True
    items = [line.split("\t") for line in head if not line.startswith("#")]
    if not items or any(len(fields) < 2 for fields in items):
        return False
    attributes = [field for fields in items for field in fields[1:]]
    valued = sum("=" in field or ":" in field for field in attributes)
    # CRFsuite allows bare names too, and columns may hold "=": a clear majority decides.
    return valued > 0.6 * len(attributes)


def stored(form: Format) -> dict[str, Any]:
    """Return the state of a format for a model file."""
    return {"version": STATE_VERSION, **form.state()}


def restored(state: dict[str, Any]) -> Format:
    """Return the format of a state that `stored` returned; refuse one of a newer version."""
    if not isinstance(state, dict):
        raise InvalidInputError("the model does not say how to read its input; train it again.")
    fields = dict(state)
    version, name = fields.pop("version", None), fields.get("format")
    if version != STATE_VERSION or not isinstance(name, str) or name not in FORMATS:
        raise InvalidInputError(
            f"the model describes its input in version {shown(version)} (format {shown(name)}), "
            f"but this robustruct knows version {STATE_VERSION} ({', '.join(FORMATS)}); upgrade "
            "robustruct."
        )
    return FORMATS[name].from_state(fields)
