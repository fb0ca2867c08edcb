"""vLLM's page: what it counts, moved when a real vLLM 0.32 moves it.

* At the first token: prompt tokens and where they came from, time to first token. A prompt whose keys and values came
  from a prefill process is counted whole a second time, as `external_kv_transfer`; only `local_compute` was computed.
* At every step: generation tokens, inter-token latency (one observation per request and token), tokens per step.
* When a request finishes: its success, its lengths and phase times. A request whose client went away reaches none of
  these (vllm#31503), while the prompt and generation tokens it got stay counted (vllm#55634).
* On a decode process, a request that has no keys and values yet is `deferred` once it has a place in the cache, and
  counts under `capacity` before: with all slots taken no transfer is begun. What a prefill process holds for others
  shows in the cache's use, in no count of requests.
* An encoder makes no token: its requests finish with `stop`. No page of one was recorded; that of a server is shown.

Durations are model time. Counters live as long as the engine process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from controller.embedded.engine.config import KV_BYTES_PER_TOKEN, EngineConfig
from controller.embedded.engine.counters import Gauges, PageHistogram, RankCounters, escaped, one_two_five
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
from controller.plant import BatchRequest

_FILES = {
    EngineKind.SERVER: "vllm-v0.32-idle.txt.gz",
    EngineKind.PREFILL: "vllm-v0.32-prefill.txt.gz",
    EngineKind.DECODE: "vllm-v0.32-decode.txt.gz",
    EngineKind.ENCODE: "vllm-v0.32-idle.txt.gz",
}
_BLOCK_TOKENS = 16  # vLLM's block size on CUDA; the recordings are from a CPU build
_RECORDED_MAX_MODEL_LEN = 2048
_CONSTANT = frozenset({"vllm:engine_sleep_state", "vllm:cache_config_info"})


class VllmPage:
    """The page of one vLLM process."""

    def __init__(self, config: EngineConfig, started_seconds: float) -> None:
        template = vllm_template(
            config.kind, config.model_name, config.max_model_len, config.kv_cache_tokens, config.data_parallel
        )
        self._page = Page(template, started_seconds)
        self._kv_cache_tokens = config.kv_cache_tokens
        self._ranks = [_Rank(self._page, template, number, config.kind) for number in range(config.data_parallel)]

    def rank(self, number: int) -> RankCounters:
        """What a rank counts with."""
        return self._ranks[number]

    def note(self, number: int, gauges: Gauges, now: float) -> None:
        """Nothing: gauges follow every step."""

    def render(self, gauges: Sequence[Gauges], names: frozenset[str] | None = None) -> bytes:
        """The page with these gauges."""
        for rank, now in zip(self._ranks, gauges, strict=True):
            rank.write(now, self._kv_cache_tokens)
        return self._page.render(names)


class _Rank(RankCounters):
    def __init__(self, page: Page, template: Template, number: int, kind: EngineKind) -> None:
        super().__init__()
        self._page = page
        self._number = number
        self._kind = kind
        self._histograms: list[PageHistogram] = []

        def histogram(name: str) -> PageHistogram:
            self._histograms.append(PageHistogram(page, template, f"vllm:{name}", rank=number))
            return self._histograms[-1]

        self._computed_tokens = 0
        self._external_tokens = 0
        self._generation_tokens = 0
        self._queried_tokens = 0
        self._external_queried_tokens = 0
        self._finished = 0
        self._failed = 0
        self._expired = 0
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
        self._outputs = [histogram(f"request_{name}") for name in ("generation_tokens", "max_num_generation_tokens")]
        self._asked = histogram("request_params_max_tokens")
        self._params_n = histogram("request_params_n")
        self._preemptions = histogram("request_num_preemptions")
        self._pairs = kind in (EngineKind.PREFILL, EngineKind.DECODE)
        if self._pairs:
            self._transfer_seconds = histogram("nixl_xfer_time_seconds")
            self._transfer_bytes = histogram("nixl_bytes_transferred")

    @property
    def _encodes(self) -> bool:
        return self._kind is EngineKind.ENCODE

    def receiving(self, request: BatchRequest, at_seconds: float) -> None:
        super().receiving(request, at_seconds)
        # A prompt is looked up in the prefix cache, and then in the connector, when its place is taken.
        self._queried_tokens += request.prompt_tokens
        self._external_queried_tokens += request.prompt_tokens

    def scheduled(self, request: BatchRequest, at_seconds: float) -> None:
        if not request.remote:
            self._queried_tokens += request.prompt_tokens  # of the prefix cache, which never hits here
            self._external_queried_tokens += request.prompt_tokens if self._pairs else 0

    def steps(self, duration_seconds: float, count: int, decoding: int, prefill_tokens: int) -> None:
        self._iteration.observe(decoding + prefill_tokens, count)
        if decoding:
            self._generation_tokens += count * decoding
            self._itl.observe(duration_seconds, count * decoding)

    def first_token(self, request: BatchRequest, at_seconds: float) -> None:
        if request.remote:
            self._external_tokens += request.prompt_tokens
        else:
            self._computed_tokens += request.prompt_tokens
        self._generation_tokens += 0 if self._encodes else 1
        self._ttft.observe(at_seconds - request.arrived_seconds)

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        self._finished += 1
        decode = at_seconds - request.first_token_seconds
        self._e2e.observe(at_seconds - request.arrived_seconds)
        self._queue.observe(request.scheduled_seconds - request.arrived_seconds)
        self._inference.observe(at_seconds - request.scheduled_seconds)
        self._prefill.observe(request.first_token_seconds - request.scheduled_seconds)
        self._decode.observe(decode)
        self._tpot.observe(decode / (request.output_tokens - 1) if request.output_tokens > 1 else 0.0)
        for histogram in self._lengths:
            histogram.observe(request.prompt_tokens)  # computed or not: on a decode process the whole prompt, too
        for histogram in self._outputs:
            histogram.observe(0 if self._encodes else request.output_tokens)
        self._asked.observe(request.output_tokens)
        self._params_n.observe(1)
        self._preemptions.observe(0)

    def transferred(self, tokens: int, seconds: float) -> None:
        self._transfer_seconds.observe(seconds)
        self._transfer_bytes.observe(tokens * KV_BYTES_PER_TOKEN)

    def handover_failed(self, request: BatchRequest, at_seconds: float) -> None:
        self._failed += 1
        self._e2e.observe(at_seconds - request.arrived_seconds)

    def expired(self) -> None:
        self._expired += 1

    def write(self, now: Gauges, kv_cache_tokens: int) -> None:
        """Put everything on the page."""
        for histogram in self._histograms:
            histogram.flush()
        prompt_tokens = self._computed_tokens + self._external_tokens
        self._set(now.running, "num_requests_running")
        self._set(now.waiting, "num_requests_waiting")
        self._set(now.queued, "num_requests_waiting_by_reason", "capacity")
        self._set(now.receiving + now.received, "num_requests_waiting_by_reason", "deferred")
        self._set(now.kv_tokens / kv_cache_tokens, "kv_cache_usage_perc")
        self._set(prompt_tokens, "prompt_tokens_total")
        self._set(self._computed_tokens, "prompt_tokens_by_source_total", "local_compute")
        self._set(self._queried_tokens, "prefix_cache_queries_total")
        self._set(self._generation_tokens, "generation_tokens_total")
        self._set(self._finished, "request_success_total", "stop" if self._encodes else "length")
        if not self._pairs:
            return
        self._set(self._external_queried_tokens, "external_prefix_cache_queries_total")
        self._set(self._failed, "request_success_total", "error")
        self._set(self._failed, "nixl_num_failed_transfers_total")
        self._set(self._expired, "nixl_num_kv_expired_reqs_total")
        if self._kind is EngineKind.DECODE:
            self._set(now.queued, "num_requests_kv_fetch_by_stage", "waiting_to_start")
            self._set(now.receiving, "num_requests_kv_fetch_by_stage", "in_progress")
            self._set(now.received, "num_requests_kv_fetch_by_stage", "completed_waiting")
            self._set(self._external_tokens, "prompt_tokens_by_source_total", "external_kv_transfer")
            self._set(self._external_tokens, "prompt_tokens_cached_total")
            self._set(self._external_tokens, "prompt_tokens_cached_by_source_total", "p2p")
            self._set(self._external_tokens, "external_prefix_cache_hits_total")

    def _set(self, value: float, name: str, *labels: str) -> None:
        self._page.set(self._page.slot(f"vllm:{name}", *labels, rank=self._number), value)


@lru_cache(maxsize=16)
def vllm_template(
    kind: EngineKind, model_name: str, max_model_len: int, kv_cache_tokens: int, ranks: int = 1
) -> Template:
    """The page of an engine that serves `model_name`. Cached: all replicas of a role share one.

    Several ranks make several processes, whose page has neither `_created` series nor a start time.
    """

    def keeps(name: str) -> bool:
        if ranks > 1 and (name.endswith("_created") or name == "process_start_time_seconds"):
            return False
        return name.startswith("vllm:") or name == "process_start_time_seconds"

    def relabel(series: Recorded, rank: int) -> Labels | None:
        if rank and "engine" not in dict(series.labels):
            return None
        return replaced(series.labels, {"engine": rank, "model_name": escaped(model_name)})

    recording = Recording(
        file=_FILES[kind],
        common=frozenset({"engine", "model_name"}),
        keeps=keeps,
        relabel=relabel,
        constant=_CONSTANT,
        hidden=lambda _: False,
        resize=partial(_resized, max_model_len=max_model_len, kv_cache_tokens=kv_cache_tokens),
    )
    return make_template(recording, ranks)


def _resized(series: list[Recorded], *, max_model_len: int, kv_cache_tokens: int) -> list[Recorded]:
    """Token counts have the bounds 1-2-5 up to the model's maximum length; the cache's sizes are labels."""
    if series[0].name == "vllm:cache_config_info":
        sizes = {
            "block_size": _BLOCK_TOKENS,
            "effective_attention_block_size": _BLOCK_TOKENS,
            "kv_cache_size_tokens": kv_cache_tokens,
            "num_gpu_blocks": kv_cache_tokens // _BLOCK_TOKENS,
            "kv_cache_max_concurrency": kv_cache_tokens / max_model_len,
            "kv_cache_memory_bytes": None,
        }
        return [Recorded(entry.name, replaced(entry.labels, sizes), entry.value) for entry in series]
    buckets = [entry for entry in series if entry.name.endswith("_bucket")]
    recorded = [dict(entry.labels)["le"] for entry in buckets]
    if recorded[:-1] != [f"{bound}.0" for bound in one_two_five(_RECORDED_MAX_MODEL_LEN)]:
        return series
    wanted = [f"{bound}.0" for bound in one_two_five(max_model_len)] + ["+Inf"]
    first = buckets[0]
    made = [Recorded(first.name, replaced(first.labels, {"le": bound}), 0.0) for bound in wanted]
    return made + [entry for entry in series if not entry.name.endswith("_bucket")]
