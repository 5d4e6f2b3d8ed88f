"""Elements of a page. Text from outside is escaped unless it is an element already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

_VOID = frozenset({"br", "link", "meta"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element. Attributes: ``class_`` is class, ``data_tip`` is data-tip; None leaves one out.

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
    """Children one after the other; lists are taken apart, None is nothing."""
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
    """At most ``length`` characters of a text."""
    written = str(value)
    return written if len(written) <= length else written[: length - 1] + "…"


def scroll(content: Html, name: str | None = None) -> Html:
    """Content that may be wider than the page; with a name, keys can scroll it too.

    What has tooltips needs no name: keys that move between these scroll as well.
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
