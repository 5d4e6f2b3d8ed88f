"""What a reader makes of one sample of a file, and what a writer is told to say about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from robustruct.formats.text import Lines


@dataclass(eq=False, slots=True)
class Sample:
    """One sample as it stands in a file."""

    line: int
    """Number of its first line."""
    content: Any
    """What the format needs to make features of it."""
    labels: Sequence[Any] | None
    """One per node; None where the file has none."""
    weight: float = 1.0
    node_weight: Sequence[float] | None = None
    text: list[str] = field(default_factory=list)
    """Its lines, for writing them again with a prediction."""


@dataclass(eq=False, slots=True)
class Answer:
    """What a model says about one sample."""

    labels: list[Any]
    probabilities: list[Mapping[Any, float]] | None = None
    """For each node a number for every label."""
    best: list[tuple[list[Any], float]] | None = None
    """The best labellings and their scores, best first."""


class Format(ABC):
    """How samples are laid out in a file, and how their features are made.

    A format is data: ``state()`` goes into a model file, so that a model can read its input again.
    """

    name: ClassVar[str]
    labels_are_text: ClassVar[bool] = True
    """Whether labels are written without a type, so that digits may mean a number."""

    @abstractmethod
    def samples(self, lines: Lines, *, labelled: bool) -> Iterator[Sample]:
        """The samples of a file, one after the other; ``labelled`` ones must have labels."""

    @abstractmethod
    def features(self, samples: Sequence[Sample]) -> list[Any]:
        """What a model takes for these samples; many at once are made faster than one by one."""

    @abstractmethod
    def captions(self, sample: Sample) -> list[str]:
        """What to write at each node where the sample is drawn, such as its word."""

    @abstractmethod
    def render(self, sample: Sample, answer: Answer) -> str:
        """The sample with its answer, as text that ends a line."""

    def node_text(self, sample: Sample, node: int) -> str:
        """What stands in the file for a node; nothing if that would be no help to a reader."""
        return ""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All there is to know, in types that JSON can write."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any]) -> Format:
        """The format whose ``state()`` this is."""
