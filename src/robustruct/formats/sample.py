"""Samples as read from a file, answers to be written, and the contract of formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from robustruct.errors import InvalidInputError, shown
from robustruct.formats.text import Lines


@dataclass(eq=False, slots=True)
class Sample:
    """One sample of a file."""

    line: int
    """Number of its first line, from 1."""
    content: Any
    """Data from which the format makes features."""
    labels: Sequence[Any] | None
    """One per node; None where the file has none."""
    weight: float = 1.0
    node_weight: Sequence[float] | None = None
    group: Any = None
    """Samples that belong together have equal ones; None where the file says nothing of it."""
    text: list[str] = field(default_factory=list)
    """Its lines, to be written again with a prediction."""


@dataclass(eq=False, slots=True)
class Answer:
    """Prediction of a model for one sample."""

    labels: list[Any]
    probabilities: list[Mapping[Any, float]] | None = None
    """Probability of every label, for each node."""
    best: list[tuple[list[Any], float]] | None = None
    """The best labellings and their scores, best first."""
    spans: list[tuple[int, int, str, float]] | None = None
    """First node, node after the last, type and probability of each span."""


class Format(ABC):
    """Layout of samples in a file, and how features are made of them.

    Model files hold the ``state()`` of a format, so that a model can read its input again.
    """

    name: ClassVar[str]
    labels_are_text: ClassVar[bool] = True
    """Whether labels are written without a type, so that digits may mean a number."""

    @abstractmethod
    def samples(self, lines: Lines, *, labelled: bool) -> Iterator[Sample]:
        """Yield the samples of a file; ``labelled`` ones must have labels."""

    @abstractmethod
    def features(self, samples: Sequence[Sample]) -> list[Any]:
        """Return the input X of a model for these samples; faster for many at once."""

    @abstractmethod
    def captions(self, sample: Sample) -> list[str]:
        """Return the text of each node for drawings, such as its word."""

    @abstractmethod
    def render(self, sample: Sample, answer: Answer) -> str:
        """Return the sample with its answer as text that ends with a line break.

        ``answer.labels`` has a label for each node; where they were asked for,
        ``answer.probabilities`` has those of all labels of each node, by label, and
        ``answer.best`` pairs of labels and score, best first.
        """

    def rendered(self, pairs: Iterable[tuple[Sample, Answer]]) -> Iterator[str]:
        """Yield the text of a file of these samples with their answers."""
        for sample, answer in pairs:
            yield self.render(sample, answer)

    def values(self, sample: Sample, name: str) -> list[Any]:
        """Return one value per node: those of a column, or of a field of this name."""
        raise InvalidInputError(
            f"files of {self.name} have no column {shown(name)}; give columns or JSON lines."
        )

    def node_text(self, sample: Sample, node: int) -> str:
        """Return the text of a node in the file; "" if it would not help a reader."""
        return ""

    def group(self, sample: Sample, column: str) -> str:
        """Return what a sample has in common with others: the value on its first node."""
        return str(self.values(sample, column)[0])

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the whole format in types that JSON can write."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any]) -> Format:
        """Return the format of a ``state()``."""


UNKNOWN = ("", "?")


def as_options(text: str) -> Any:
    """Return what the text of a partly known label says: "?" is None, "A|B" a set."""
    if text in UNKNOWN:
        return None
    return set(text.split("|")) if "|" in text else text
