"""Builds the elements of a page; all text is escaped unless it is `Html`."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

_VOID = frozenset({"br", "link", "meta"})


class Html(str):
    """Markup: text that needs no escaping."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element. Attributes: ``class_`` is class, ``data_tip`` data-tip; None omits one.

    Examples
    --------
    >>> tag("p", "a < b", tag("br"), class_="note")
    '<p class="note">a &lt; b<br></p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{text(*children)}</{name}>")


def text(*children: Any) -> Html:
    """Concatenate children; lists are flattened, None is skipped."""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(str(child))
        elif isinstance(child, Iterable) and not isinstance(child, str | bytes):
            parts.append(str(text(*child)))
        else:
            parts.append(escape(str(child), quote=False))
    return Html("".join(parts))


def shortened(value: Any, length: int) -> str:
    """Cut a text to at most ``length`` characters."""
    written = str(value)
    return written if len(written) <= length else written[: length - 1] + "…"


def scroll(content: Html, name: str | None = None) -> Html:
    """Let content scroll that may be wider than the page; with a name, by keys too.

    Content with tooltips needs no name: keys that move between tooltips scroll as well.
    """
    if name is None:
        return tag("div", content, class_="scroll")
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=name)


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if isinstance(value, float):
        value = f"{value:.5g}"
    return f' {name}="{escape(str(value))}"'
