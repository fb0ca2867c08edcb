"""SGLang's page: what it counts, moved when SGLang 0.5.23 moves it.

* `realtime_tokens_total` follows every forward pass: computed prompt tokens, and one token a decoding request. The
  first token of an answer comes with its prompt and is in neither mode. A decode process computes no prompts.
* `prompt_tokens_total`, `generation_tokens_total` and whatever else is counted per request move when it finishes; on a
  prefill process that is when the decode process has the blocks.
* The gauges are those of the last prefill, or of the last multiple of forty decode steps; an idle engine shows the
  truth (0.5.23 flushes when it goes idle; older ones stood still for 30 s, sglang#26495).
* A prefill process keeps those that no decode process has asked for yet in its bootstrap queue, and those that are
  computed and not fetched in its inflight queue; `num_running_reqs` is the forward batch alone. A decode process has
  those without a place in its prealloc queue, those whose blocks are on their way in its transfer queue, and those with
  blocks and no slot in `num_queue_reqs`.
* A series with labels of its own is not printed before its first value.

With `dp_size` above 1 the series of the schedulers carry `dp_rank`, and the other ranks' labels go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from controller.embedded.engine.kinds import EngineKind
from controller.embedded.engine.streams import Stream
from controller.plant import BatchRequest

_FILES = {
    EngineKind.SERVER: ("sglang-v0.5.23-unified.txt.gz", "unified"),
    EngineKind.PREFILL: ("sglang-v0.5.23-prefill.txt.gz", "prefill"),
    EngineKind.DECODE: ("sglang-v0.5.23-unified.txt.gz", "decode"),
}
_DECODE_LOG_INTERVAL = 40  # decode steps between two refreshes of the gauges: the default of --decode-log-interval
_PAGE_TOKENS = 64
_RANK_LABELS = frozenset({"tp_rank", "moe_ep_rank"})
_COMMON = frozenset({"model_name", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank", "dp_rank", "pid"})
# Printed for rank 0 alone by the recorded servers, whatever their number of ranks.
_FIRST_RANK_ONLY = ("sglang:dp_attention_", "sglang:prefill_effective_tokens", "sglang:scheduler_")
# What says how the engine is made, not what it does.
_CONSTANT = frozenset(
    f"sglang:{name}"
    for name in (
        "fwd_occupancy",  # NaN unless a device timer is on
        "graph_memory_usage_gb",
        "is_cuda_graph",
        "kv_cache_memory_usage_gb",
        "new_token_ratio",
        "startup_available_gpu_memory_gb",
        "weight_memory_usage_gb",
    )
)


class SglangPage:
    """The page of one SGLang server."""

    def __init__(self, config: EngineConfig, started_seconds: float) -> None:
        template = sglang_template(config.kind, config.model_name, config.data_parallel)
        self._page = page = Page(template, started_seconds)
        self._requests = requests = _Requests(page, template, config.kind)
        self._ranks = [
            _Rank(page, template, number, config, requests, started_seconds) for number in range(config.data_parallel)
        ]

    def rank(self, number: int) -> RankCounters:
        """What a rank counts with."""
        return self._ranks[number]

    def note(self, number: int, gauges: Gauges, now: float) -> None:
        """The gauges of a rank, shown when SGLang would show them."""
        self._ranks[number].note(gauges, now)

    def render(self, gauges: Sequence[Gauges], names: frozenset[str] | None = None) -> bytes:
        """The page; its gauges are the last ones noted that were due."""
        self._requests.write()
        for rank in self._ranks:
            rank.write()
        return self._page.render(names)


class _Requests:
    """What the front end counts, for all ranks together."""

    def __init__(self, page: Page, template: Template, kind: EngineKind) -> None:
        self.aborted = 0
        self._page = page
        self._histograms: list[PageHistogram] = []
        self._counts = {streaming: [0, 0, 0] for streaming in (False, True)}  # requests, prompt and generated tokens

        def histogram(name: str, *labels: str) -> PageHistogram:
            self._histograms.append(PageHistogram(page, template, f"sglang:{name}", *labels))
            return self._histograms[-1]

        def by_streaming(name: str) -> dict[bool, PageHistogram]:
            return {streaming: histogram(name, _is(streaming)) for streaming in (False, True)}

        self._e2e = by_streaming("e2e_request_latency_seconds")
        self._prompts = [histogram("prompt_tokens_histogram"), histogram("uncached_prompt_tokens_histogram")]
        self._outputs = histogram("generation_tokens_histogram")
        self._sees_tokens = kind is not EngineKind.PREFILL
        if self._sees_tokens:
            self._ttft = by_streaming("time_to_first_token_seconds")
            self._tpot = by_streaming("request_time_per_output_token_seconds")
            self._itl = histogram("inter_token_latency_seconds")

    def tokens(self, interval_seconds: float, count: int) -> None:
        """`count` tokens that came `interval_seconds` after the one before."""
        if self._sees_tokens:
            self._itl.observe(interval_seconds, count)

    def first_token(self, request: BatchRequest, at_seconds: float) -> None:
        """A request got its first token."""
        if self._sees_tokens:
            self._ttft[_streams(request)].observe(at_seconds - request.arrived_seconds)

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        """A request is answered."""
        streaming = _streams(request)
        counts = self._counts[streaming]
        for index, number in enumerate((1, request.prompt_tokens, request.output_tokens)):
            counts[index] += number
        self._e2e[streaming].observe(at_seconds - request.arrived_seconds)
        for histogram in self._prompts:
            histogram.observe(request.prompt_tokens)
        self._outputs.observe(request.output_tokens)
        if self._sees_tokens and request.output_tokens > 1:
            decode = at_seconds - request.first_token_seconds
            self._tpot[streaming].observe(decode / (request.output_tokens - 1))

    def write(self) -> None:
        """Put everything on the page."""
        for histogram in self._histograms:
            histogram.flush()
        for streaming, counts in self._counts.items():
            if not counts[0]:
                continue
            names = ("num_requests_total", "prompt_tokens_total", "generation_tokens_total")
            for name, value in zip(names, counts, strict=True):
                self._page.set(self._page.slot(f"sglang:{name}", _is(streaming)), value)
        if self.aborted:
            self._page.set(self._page.slot("sglang:num_aborted_requests_total"), self.aborted)


class _Rank(RankCounters):
    """One scheduler."""

    def __init__(
        self,
        page: Page,
        template: Template,
        number: int,
        config: EngineConfig,
        requests: _Requests,
        started_seconds: float,
    ) -> None:
        super().__init__()
        self._page = page
        self._number = number
        self._kind = config.kind
        self._kv_cache_tokens = config.kv_cache_tokens
        self._requests = requests
        self._queue = PageHistogram(page, template, "sglang:queue_time_seconds", rank=number)
        self._realtime = {"prefill_compute": 0, "decode": 0}
        self._computed = 0
        self._shown = Gauges()
        self._due = True
        self._steps = 0
        self._throughput = 0.0
        self._reported_tokens = 0
        self._reported_seconds = started_seconds
        for name, value in (
            ("max_total_num_tokens", config.kv_cache_tokens),
            ("context_len", config.max_model_len),
            ("page_size", _PAGE_TOKENS),
            ("num_pages", config.kv_cache_tokens // _PAGE_TOKENS),
        ):
            self._set(value, name)

    def scheduled(self, request: BatchRequest, at_seconds: float) -> None:
        self._queue.observe(at_seconds - request.arrived_seconds)

    def steps(self, duration_seconds: float, count: int, decoding: int, prefill_tokens: int) -> None:
        if prefill_tokens and self._kind is not EngineKind.DECODE:
            self._realtime["prefill_compute"] += count * prefill_tokens
        if decoding:
            self._realtime["decode"] += count * decoding
            self._requests.tokens(duration_seconds, count * decoding)
            self._steps += count
        if prefill_tokens or self._steps >= _DECODE_LOG_INTERVAL:
            self._due = True

    def first_token(self, request: BatchRequest, at_seconds: float) -> None:
        self._requests.first_token(request, at_seconds)

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        if not request.keep:
            self._requests.finished(request, at_seconds)

    def handed_over(self, request: BatchRequest, at_seconds: float) -> None:
        self._requests.finished(request, at_seconds)

    def aborted(self, request: BatchRequest) -> None:
        self._requests.aborted += 1

    def handover_failed(self, request: BatchRequest, at_seconds: float) -> None:
        self._requests.aborted += 1

    def note(self, gauges: Gauges, now: float) -> None:
        """Show these gauges, if they are due."""
        if not (self._due or gauges.idle):
            return
        decoded = self._realtime["decode"]
        elapsed = now - self._reported_seconds
        if elapsed > 0:
            self._throughput = 0.0 if gauges.idle else (decoded - self._reported_tokens) / elapsed
            self._reported_tokens, self._reported_seconds = decoded, now
        self._shown, self._due, self._steps = gauges, False, 0

    def write(self) -> None:
        """Put everything on the page."""
        self._queue.flush()
        for mode, tokens in self._realtime.items():
            if tokens:
                self._set(tokens, "realtime_tokens_total", mode)
        shown, capacity = self._shown, self._kv_cache_tokens
        queued = shown.queued
        if self._kind is EngineKind.DECODE:
            self._set(shown.queued, "num_decode_prealloc_queue_reqs")
            self._set(shown.receiving, "num_decode_transfer_queue_reqs")
            queued = shown.received
        elif self._kind is EngineKind.PREFILL:
            self._set(shown.bootstrapping, "num_prefill_bootstrap_queue_reqs")
            self._set(shown.held, "num_prefill_inflight_queue_reqs")
        self._set(shown.running, "num_running_reqs")
        self._set(queued, "num_queue_reqs")
        self._set(self._throughput, "gen_throughput")
        for name in ("token_usage", "full_token_usage"):
            self._set(shown.kv_tokens / capacity, name)
        for name in ("num_used_tokens", "kv_used_tokens"):
            self._set(shown.kv_tokens, name)
        self._set(capacity - shown.kv_tokens, "kv_available_tokens")

    def _set(self, value: float, name: str, *labels: str) -> None:
        self._page.set(self._page.slot(f"sglang:{name}", *labels, rank=self._number), value)


@lru_cache(maxsize=16)
def sglang_template(kind: EngineKind, model_name: str, ranks: int = 1) -> Template:
    """The page of a server of `model_name`. Cached: all replicas of a role share one."""
    file, engine_type = _FILES[kind]

    def relabel(series: Recorded, rank: int) -> Labels | None:
        named = replaced(series.labels, {"engine_type": engine_type, "model_name": escaped(model_name)})
        if ranks == 1:
            return named
        of_a_rank = bool(_RANK_LABELS.intersection(dict(series.labels)))
        if rank and (not of_a_rank or series.name.startswith(_FIRST_RANK_ONLY)):
            return None
        if not of_a_rank:
            return named
        return (("dp_rank", str(rank)), *replaced(named, dict.fromkeys(_RANK_LABELS, rank)))

    recording = Recording(
        file=file,
        common=_COMMON,
        keeps=lambda name: name.startswith("sglang:"),
        relabel=relabel,
        constant=_CONSTANT,
        hidden=_unborn,
        resize=_same,
    )
    return make_template(recording, ranks)


def _unborn(series: list[Recorded]) -> bool:
    """A counter or histogram that had a value when it was recorded; those at 0 are printed from the start."""
    counted = series[0].name.endswith(("_total", "_bucket", "_sum", "_count"))
    return counted and any(entry.value for entry in series)


_same: Callable[[list[Recorded]], list[Recorded]] = list


def _streams(request: BatchRequest) -> bool:
    return isinstance(request.key, Stream) and request.key.streaming


def _is(streaming: bool) -> str:
    return "true" if streaming else "false"
