"""Where a series stands in the sums: which of its labels split a number, which repeat it, which model it belongs to.

This depends on the labels alone, so it is worked out once per series and kept as long as the scanner keeps the series.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from controller.engines.exposition import DEFAULT_CACHE_ENTRIES, Series

Key = tuple[tuple[str, str], ...]

_BOUND = "le"
_PRIORITY = "priority"
_PROCESS = "pid"


class Place(msgspec.Struct, frozen=True, eq=False):
    """`rank`: the labels without `le`, sorted: one process's number. `replica`: those of them that split the number;
    series of one replica repeat it. `data_ranks`: the values of data-parallel rank labels. `bound`: of a bucket, None
    where `le` is missing or no number. `router_label`: a label that only a router prints."""

    name: str
    labels: dict[str, str]
    rank: Key
    replica: Key
    data_ranks: tuple[str, ...]
    priority: str | None
    bound: float | None
    model: str | None
    router_label: str | None


class Places:
    """Finds the place of a series; remembers it. `model_labels` in order of preference."""

    def __init__(self, entries: int = DEFAULT_CACHE_ENTRIES) -> None:
        self._entries = entries
        self._places: dict[Series, Place] = {}  # Series are compared by identity

    def of(self, series: Series, model_labels: Sequence[str], router_labels: frozenset[str]) -> Place:
        """The place of a series; all series of one name must be asked for with the same label names."""
        place = self._places.get(series)
        if place is None:
            if len(self._places) >= self._entries:
                self._places.clear()
            place = self._places[series] = _place(series, model_labels, router_labels)
        return place


def _place(series: Series, model_labels: Sequence[str], router_labels: frozenset[str]) -> Place:
    labels = dict(series.labels)
    rank = tuple(sorted(pair for pair in series.labels if pair[0] != _BOUND))
    return Place(
        name=series.name,
        labels=labels,
        rank=rank,
        replica=tuple(pair for pair in rank if not _repeats(pair[0])),
        data_ranks=tuple(value for name, value in rank if _is_data_rank(name)),
        priority=labels.get(_PRIORITY),
        bound=_bound(labels),
        model=next((labels[name] for name in model_labels if name in labels), None),
        router_label=next((name for name in labels if name in router_labels), None),
    )


def _is_data_rank(label: str) -> bool:
    # vLLM's `engine` and SGLang's `dp_rank` count processes that serve different requests.
    return label == "engine" or label.endswith("dp_rank")


def _repeats(label: str) -> bool:
    """Whether series that differ in this label repeat one number: ranks that work on the same requests (`tp_rank`,
    `pp_rank`, `moe_ep_rank`, …) and processes that print for another (vllm PR #28792)."""
    return label == _PROCESS or (label.endswith("_rank") and not _is_data_rank(label))


def _bound(labels: Mapping[str, str]) -> float | None:
    try:
        number = float(labels[_BOUND])
    except (KeyError, ValueError):
        return None
    # Bounds computed in floating point differ in the last digits between builds (TGI prints 1.5^n × 1e-4).
    return None if math.isnan(number) else float(f"{number:.12g}")
