"""What an engine counts, moved when a real vLLM moves it.

* At the first token: prompt tokens, their source (everything is computed here, nothing cached), time to first token.
* At every step: generation tokens, inter-token latency (one observation per request and token), tokens per step.
* When a request finishes: its success, its lengths and phase times. A request whose client went away reaches none of
  these (vllm#31503), while the prompt and generation tokens it got stay counted (vllm#55634).

Durations are model time. Counters live as long as the engine process: a restart makes a new `EngineMetrics`.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from controller.embedded.engine.exposition import Page, Template
from controller.plant import BatchObserver, BatchRequest


class _Histogram:
    """Observations in buckets, written to the page when it is rendered."""

    __slots__ = ("_bounds", "_changed", "_count_line", "_counts", "_lines", "_page", "_sum", "_sum_line")

    def __init__(self, page: Page, template: Template, name: str) -> None:
        bounds = template.bounds(name)
        keys = [key for key in template.slots if key[0] == f"{name}_bucket"]
        self._page = page
        self._bounds = bounds[:-1]
        self._lines = [template.slots[key] for key in keys]
        self._count_line = page.slot(f"{name}_count")
        self._sum_line = page.slot(f"{name}_sum")
        self._counts = [0] * len(bounds)
        self._sum = 0.0
        self._changed = False

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
        self._changed = True

    def flush(self) -> None:
        if not self._changed:
            return
        total = 0
        for line, total in zip(self._lines, accumulate(self._counts), strict=True):
            self._page.set(line, total)
        self._page.set(self._count_line, total)
        self._page.set(self._sum_line, self._sum)
        self._changed = False


class EngineMetrics(BatchObserver):
    """The counters of one engine process and its page."""

    def __init__(self, template: Template, started_seconds: float) -> None:
        self._page = page = Page(template, started_seconds)
        self._histograms: list[_Histogram] = []

        def histogram(name: str) -> _Histogram:
            self._histograms.append(_Histogram(page, template, f"vllm:{name}"))
            return self._histograms[-1]

        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.queried_tokens = 0
        self.finished_requests = 0
        self._ttft = histogram("time_to_first_token_seconds")
        self._itl = histogram("inter_token_latency_seconds")
        self._tpot = histogram("request_time_per_output_token_seconds")
        self._e2e = histogram("e2e_request_latency_seconds")
        self._queue = histogram("request_queue_time_seconds")
        self._inference = histogram("request_inference_time_seconds")
        self._prefill = histogram("request_prefill_time_seconds")
        self._decode = histogram("request_decode_time_seconds")
        self._iteration = histogram("iteration_tokens_total")
        self._lengths = [histogram(f"request_{name}") for name in ("prompt_tokens", "prefill_kv_computed_tokens")]
        self._outputs = [
            histogram(f"request_{name}")
            for name in ("generation_tokens", "max_num_generation_tokens", "params_max_tokens")
        ]
        self._params_n = histogram("request_params_n")
        self._preemptions = histogram("request_num_preemptions")

    def scheduled(self, request: BatchRequest, at_seconds: float) -> None:
        self.queried_tokens += request.prompt_tokens  # of the prefix cache, which never hits here

    def steps(self, duration_seconds: float, count: int, decoding: int, prefill_tokens: int) -> None:
        self._iteration.observe(decoding + prefill_tokens, count)
        if decoding:
            self.generation_tokens += count * decoding
            self._itl.observe(duration_seconds, count * decoding)

    def first_token(self, request: BatchRequest, at_seconds: float) -> None:
        self.prompt_tokens += request.prompt_tokens
        self.generation_tokens += 1
        self._ttft.observe(at_seconds - request.arrived_seconds)

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        self.finished_requests += 1
        decode = at_seconds - request.first_token_seconds
        self._e2e.observe(at_seconds - request.arrived_seconds)
        self._queue.observe(request.scheduled_seconds - request.arrived_seconds)
        self._inference.observe(at_seconds - request.scheduled_seconds)
        self._prefill.observe(request.first_token_seconds - request.scheduled_seconds)
        self._decode.observe(decode)
        self._tpot.observe(decode / (request.output_tokens - 1) if request.output_tokens > 1 else 0.0)
        for histogram in self._lengths:
            histogram.observe(request.prompt_tokens)
        for histogram in self._outputs:
            histogram.observe(request.output_tokens)
        self._params_n.observe(1)
        self._preemptions.observe(0)

    def render(self, *, running: int, waiting: int, kv_usage: float, names: frozenset[str] | None = None) -> bytes:
        """The page with these gauges, whole or only the named samples."""
        page = self._page
        for histogram in self._histograms:
            histogram.flush()
        for value, name, *labels in (
            (running, "vllm:num_requests_running"),
            (waiting, "vllm:num_requests_waiting"),
            (waiting, "vllm:num_requests_waiting_by_reason", "capacity"),
            (kv_usage, "vllm:kv_cache_usage_perc"),
            (self.prompt_tokens, "vllm:prompt_tokens_total"),
            (self.prompt_tokens, "vllm:prompt_tokens_by_source_total", "local_compute"),
            (self.queried_tokens, "vllm:prefix_cache_queries_total"),
            (self.generation_tokens, "vllm:generation_tokens_total"),
            (self.finished_requests, "vllm:request_success_total", "length"),
        ):
            page.set(page.slot(name, *labels), value)
        return page.render(names)
