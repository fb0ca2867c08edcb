"""What the pages of all engines are made of: gauges of one moment, histograms, and the interface of a page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from controller.embedded.engine.exposition import Page, Template
from controller.plant import BatchObserver, BatchRequest


@dataclass(frozen=True, slots=True)
class Gauges:
    """One data-parallel rank at one moment. `queued`: not looked at yet; `receiving`: keys and values on their way
    here; `received`: those are there, and no slot; `bootstrapping`: a prompt that no decode process has asked for;
    `held`: a computed prompt that has not been fetched."""

    running: int = 0
    queued: int = 0
    receiving: int = 0
    received: int = 0
    bootstrapping: int = 0
    held: int = 0
    kv_tokens: int = 0

    @property
    def waiting(self) -> int:
        """Accepted and not running."""
        return self.queued + self.receiving + self.received + self.bootstrapping

    @property
    def idle(self) -> bool:
        """Whether no step is under way."""
        return self.running == 0


class RankCounters(BatchObserver):
    """What one rank counts: what its batch reports, and the hand-over of keys and values."""

    def __init__(self) -> None:
        self._receiving: list[BatchRequest] = []

    def receiving(self, request: BatchRequest, at_seconds: float) -> None:
        self._receiving.append(request)

    def take_receiving(self) -> list[BatchRequest]:
        """The requests that have got a place since the last call, so that their keys and values can be fetched."""
        taken, self._receiving = self._receiving, []
        return taken

    def submitted(self, request: BatchRequest) -> None:
        """A request was taken on."""

    def aborted(self, request: BatchRequest) -> None:
        """Its client went away before the answer was complete."""

    def transferred(self, tokens: int, seconds: float) -> None:
        """The keys and values of a prompt came in."""

    def handed_over(self, request: BatchRequest, at_seconds: float) -> None:
        """A decode process has taken a kept prompt, and its answer goes out only now (SGLang)."""

    def handover_failed(self, request: BatchRequest, at_seconds: float) -> None:
        """They did not, and the request has ended with an error."""

    def expired(self) -> None:
        """Nobody fetched the keys and values of a prompt in time."""


class EnginePage(Protocol):
    """The counters of one engine process and its page."""

    def rank(self, number: int) -> RankCounters:
        """What a rank counts with."""
        ...

    def note(self, number: int, gauges: Gauges, now: float) -> None:
        """The gauges of a rank after it has advanced to `now`. The engine decides whether the page follows."""
        ...

    def render(self, gauges: Sequence[Gauges], names: frozenset[str] | None = None) -> bytes:
        """The page, whole or only the named samples; `gauges` are those of now, by rank."""
        ...


class PageHistogram:
    """Observations in buckets, written to the page when it is rendered."""

    __slots__ = ("_bounds", "_changed", "_count_line", "_counts", "_lines", "_page", "_sum", "_sum_line")

    def __init__(self, page: Page, template: Template, name: str, *labels: str, rank: int = 0) -> None:
        bounds, self._lines = template.bounds(name, *labels, rank=rank)
        self._page = page
        self._bounds = bounds[:-1]
        self._count_line = page.slot(f"{name}_count", *labels, rank=rank)
        self._sum_line = page.slot(f"{name}_sum", *labels, rank=rank)
        self._counts = [0] * len(bounds)
        self._sum = 0.0
        self._changed = False

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
        self._changed = True

    def flush(self) -> None:
        """Write what changed."""
        if not self._changed:
            return
        total = 0
        for line, total in zip(self._lines, accumulate(self._counts), strict=True):
            self._page.set(line, total)
        self._page.set(self._count_line, total)
        self._page.set(self._sum_line, self._sum)
        self._changed = False


def one_two_five(most: int) -> list[int]:
    """The bounds of token counts of vLLM: 1, 2, 5, 10, … up to `most`."""
    bounds = (mantissa * 10**exponent for exponent in range(len(str(most))) for mantissa in (1, 2, 5))
    return [bound for bound in bounds if bound <= most]


def escaped(value: str) -> str:
    """A label value as it is printed."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
