"""The page of an SGLang encoder (`--encoder-only`), which has no scheduler and none of its gauges.

What is in flight is the difference of two counters: requests are counted when they arrive, and again when they have
ended, as success or error. All series have labels of their own, so before the first request the page is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from controller.embedded.engine.config import EngineConfig
from controller.embedded.engine.counters import Gauges, PageHistogram, RankCounters, escaped
from controller.embedded.engine.exposition import (
    Labels,
    Page,
    Recorded,
    Recording,
    Template,
    make_template,
    replaced,
)
from controller.plant import BatchRequest

_FILE = "sglang-v0.5.23-encoder.txt.gz"
_MODALITY = "image"


class SglangEncoderPage:
    """The page of one encoder."""

    def __init__(self, config: EngineConfig, started_seconds: float) -> None:
        template = sglang_encoder_template(config.model_name, config.data_parallel)
        self._page = Page(template, started_seconds)
        self._ranks = [_Rank(self._page, template, number) for number in range(config.data_parallel)]

    def rank(self, number: int) -> RankCounters:
        """What a rank counts with."""
        return self._ranks[number]

    def note(self, number: int, gauges: Gauges, now: float) -> None:
        """Nothing: there are no gauges of requests."""

    def render(self, gauges: Sequence[Gauges], names: frozenset[str] | None = None) -> bytes:
        """The page."""
        for rank in self._ranks:
            rank.write()
        return self._page.render(names)


class _Rank(RankCounters):
    def __init__(self, page: Page, template: Template, number: int) -> None:
        super().__init__()
        self._page = page
        self._number = number
        self._histograms: list[PageHistogram] = []
        self._received = 0
        self._tokens = 0
        self._ended = {"success": 0, "error": 0}

        def histogram(name: str) -> PageHistogram:
            made = PageHistogram(page, template, f"sglang:encoder_{name}", _MODALITY, rank=number)
            self._histograms.append(made)
            return made

        self._queue = histogram("queue_wait_seconds")
        self._forward = histogram("model_forward_seconds")
        self._e2e = histogram("request_e2e_latency_seconds")
        self._items = [histogram("mm_items_per_request"), histogram("mm_items_per_batch")]

    def submitted(self, request: BatchRequest) -> None:
        self._received += 1

    def scheduled(self, request: BatchRequest, at_seconds: float) -> None:
        self._queue.observe(at_seconds - request.arrived_seconds)

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        self._ended["success"] += 1
        self._tokens += request.prompt_tokens
        self._forward.observe(at_seconds - request.scheduled_seconds)
        self._e2e.observe(at_seconds - request.arrived_seconds)
        for histogram in self._items:
            histogram.observe(1)

    def aborted(self, request: BatchRequest) -> None:
        self._ended["error"] += 1

    def write(self) -> None:
        """Put everything on the page."""
        for histogram in self._histograms:
            histogram.flush()
        self._set(self._received, "encoder_requests_received_total", _MODALITY)
        self._set(self._tokens, "encoder_cache_total_tokens_total", _MODALITY)
        self._set(self._ended["success"], "encoder_cache_total_files_total", _MODALITY)
        for status, count in self._ended.items():
            self._set(count, "encoder_requests_total", _MODALITY, status)

    def _set(self, value: float, name: str, *labels: str) -> None:
        if value:
            self._page.set(self._page.slot(f"sglang:{name}", *labels, rank=self._number), value)


@lru_cache(maxsize=16)
def sglang_encoder_template(model_name: str, ranks: int = 1) -> Template:
    """The page of an encoder of `model_name`. Cached: all replicas of a role share one."""

    def relabel(series: Recorded, rank: int) -> Labels | None:
        return replaced(series.labels, {"dp_rank": rank, "model_name": escaped(model_name)})

    recording = Recording(
        file=_FILE,
        common=frozenset({"model_name", "dp_rank"}),
        keeps=lambda name: name.startswith("sglang:"),
        relabel=relabel,
        constant=frozenset(),
        hidden=lambda _: True,
        resize=list,
    )
    return make_template(recording, ranks)
