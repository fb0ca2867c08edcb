"""vLLM: V1 from 0.8.5 on, V0 as far as its names survived, and products that wrap it (Ray Serve, Ascend, Dynamo).

What is true prefill work depends on the version:
* from 0.17 on, `prompt_tokens_by_source_total{source="local_compute"}`. `prompt_tokens_total` also counts tokens from
  the prefix cache and tokens whose KV blocks came from elsewhere: a decode process repeats every prompt.
* before, prefix-cache queries minus hits, local and external. Both are tokens and are counted together when a request
  is scheduled, so the difference never falls. `prompt_tokens_total` minus hits would: the two are counted at different
  moments. On captured 0.32 bodies, which have both, the difference equals `local_compute` but for requests that were
  scheduled and had no first token yet.
* with the prefix cache off, or in V0, `prompt_tokens_total`.
"""

from __future__ import annotations

from controller.engines.histograms import Unobserved
from controller.engines.names import counter, gauge, histogram
from controller.engines.profile import PROCESS_START, Draft, Profile
from controller.engines.reading import EngineReading, MissingReason, Quality, Role, SleepState
from controller.engines.view import View, every_rank

_RUNNING = gauge("num_requests_running")
_WAITING = gauge("num_requests_waiting")
_SWAPPED = gauge("num_requests_swapped")  # V0: preempted, neither running nor in the waiting queue
_WAITING_BY_REASON = gauge("num_requests_waiting_by_reason")  # from 0.21
_KV_FETCH_BY_STAGE = gauge("num_requests_kv_fetch_by_stage")  # from 0.32, decode side only
_KV_USAGE = gauge("kv_cache_usage_perc", "gpu_cache_usage_perc")  # 0…1 despite the name; renamed in 0.9.2, gone in 0.12
_SLEEP_STATE = gauge("engine_sleep_state")  # from 0.12
_PROMPT = counter("prompt_tokens")
_PROMPT_BY_SOURCE = counter("prompt_tokens_by_source")  # from 0.17
_PROMPT_CACHED = counter("prompt_tokens_cached")  # from 0.17
_CACHE_QUERIES = counter("prefix_cache_queries", "gpu_prefix_cache_queries")
_CACHE_HITS = counter("prefix_cache_hits", "gpu_prefix_cache_hits")
_EXTERNAL_HITS = counter("external_prefix_cache_hits")  # from 0.12
_GENERATION = counter("generation_tokens")
_FINISHED = counter("request_success")
_TTFT = histogram("time_to_first_token_seconds")
# 0.10.2 and 0.11 print both. `request_time_per_output_token_seconds` is another thing: a mean per request, 0 for
# requests of one token.
_ITL = histogram("inter_token_latency_seconds", "time_per_output_token_seconds")

_GAUGES = (_RUNNING, _WAITING, _WAITING_BY_REASON, _KV_USAGE)
# The one stage in which a request waits for somebody else. No transfer begins while all slots or blocks are taken, so
# `waiting_to_start` is a queue of the decode process itself, and 0.32 counts it under the reason `capacity` (recorded:
# 8 of 8 slots taken, and two of them). `completed_waiting` has its blocks and waits for a slot.
_KV_UNDER_WAY = "in_progress"


def _read(draft: Draft) -> EngineReading:
    view, role = draft.view, draft.role
    basis, computed = _computed_prompt_tokens(draft)
    if role is Role.PREFILL:
        draft.skip("itl", MissingReason.NOT_THIS_ROLE, "a prefill process makes one token a request")
    if role is Role.DECODE and view.has(_TTFT):
        draft.quality.add(Quality.TTFT_EXCLUDES_PREFILL)
    if view.has(_KV_USAGE):
        draft.skip("handover_requests", MissingReason.ABSENT, "not printed; KV use above 0 tells that blocks are held")
    return EngineReading(
        engine="vllm",
        running_requests=draft.take("running_requests", every_rank, view, _RUNNING, _GAUGES),
        waiting_requests=draft.take("waiting_requests", _waiting, view),
        deferred_requests=draft.take("deferred_requests", view.total, _WAITING_BY_REASON, reason="deferred"),
        kv_waiting_requests=draft.take("kv_waiting_requests", _kv_waiting, view, role),
        queues=_queues(draft),
        computed_prompt_tokens=computed,
        cached_prompt_tokens=draft.take("cached_prompt_tokens", _cached_prompt_tokens, view),
        generation_tokens=draft.take("generation_tokens", view.total, _GENERATION),
        finished_requests=draft.take("finished_requests", view.total, _FINISHED),
        counter_basis=basis,
        ttft=draft.histogram("ttft", _TTFT),
        itl=None if role is Role.PREFILL else draft.histogram("itl", _ITL),
        kv_cache_usage=draft.take("kv_cache_usage", view.share, _KV_USAGE),
        process_start_time_seconds=draft.take("process_start_time_seconds", view.single, PROCESS_START),
        sleep_state=draft.take("sleep_state", _sleep_state, view),
    )


def _waiting(view: View) -> float:
    return every_rank(view, _WAITING, _GAUGES) + (view.optional_total(_SWAPPED) or 0.0)


def _kv_waiting(view: View, role: Role | None) -> float:
    if view.has(_KV_FETCH_BY_STAGE):
        return view.total(_KV_FETCH_BY_STAGE, stage=_KV_UNDER_WAY)
    if role is Role.DECODE:
        # 0.21 to 0.31: on a decode process, what is deferred waits for KV blocks (rarely for a grammar or an adapter).
        return view.total(_WAITING_BY_REASON, reason="deferred")
    raise Unobserved(MissingReason.ABSENT, "only a decode process prints it")


def _queues(draft: Draft) -> tuple[tuple[str, float], ...]:
    return (
        *draft.queues("waiting", _WAITING_BY_REASON, "reason"),
        *draft.queues("kv_fetch", _KV_FETCH_BY_STAGE, "stage"),
        *draft.queues("swapped", _SWAPPED),
    )


def _computed_prompt_tokens(draft: Draft) -> tuple[str, float | None]:
    """(which series, how many)."""
    field, view = "computed_prompt_tokens", draft.view
    if view.has(_PROMPT_BY_SOURCE):
        return "prompt_tokens_by_source", draft.take(field, view.total, _PROMPT_BY_SOURCE, source="local_compute")
    if draft.role is Role.DECODE:
        draft.skip(field, MissingReason.NOT_THIS_ROLE, "before 0.17 a decode process counts prompts it did not compute")
        return "", None
    prompt = draft.take(field, view.total, _PROMPT)
    if not (view.has(_CACHE_QUERIES) and view.has(_CACHE_HITS)):
        if prompt is not None:
            draft.quality.add(Quality.CACHED_TOKENS_UNKNOWN)
        return "prompt_tokens", prompt
    if prompt and draft.take(field, view.total, _CACHE_QUERIES) == 0.0:
        return "prompt_tokens", prompt  # the prefix cache is off: it is never asked
    draft.quality.add(Quality.PROMPT_TOKENS_WHEN_SCHEDULED)
    return "prefix_cache_queries", draft.take(field, _missed_tokens, view)


def _missed_tokens(view: View) -> float:
    missed = view.total(_CACHE_QUERIES) - view.total(_CACHE_HITS) - (view.optional_total(_EXTERNAL_HITS) or 0.0)
    if missed < 0:
        raise Unobserved(MissingReason.INCONSISTENT, "more prefix-cache hits than queries")
    return missed


def _cached_prompt_tokens(view: View) -> float:
    if view.has(_PROMPT_CACHED):
        return view.total(_PROMPT_CACHED)
    return view.total(_CACHE_HITS) + (view.optional_total(_EXTERNAL_HITS) or 0.0)


def _sleep_state(view: View) -> SleepState:
    ranks_in = view.by_label(_SLEEP_STATE, "sleep_state")
    if ranks_in.get("discard_all"):
        return SleepState.DISCARDED
    if ranks_in.get("weights_offloaded"):
        return SleepState.WEIGHTS_OFFLOADED
    if "awake" not in ranks_in:
        raise Unobserved(MissingReason.ABSENT, "the state awake is not printed")
    return SleepState.AWAKE if ranks_in["awake"] >= max(1, len(view.ranks(_SLEEP_STATE))) else SleepState.ASLEEP


VLLM = Profile(
    engine="vllm",
    # Ray Serve LLM wraps the names; its own prefix follows vLLM's.
    prefixes=("vllm:", "vllm_", "ray_vllm:", "ray_vllm_"),
    families=(
        _RUNNING,
        _WAITING,
        _SWAPPED,
        _WAITING_BY_REASON,
        _KV_FETCH_BY_STAGE,
        _KV_USAGE,
        _SLEEP_STATE,
        _PROMPT,
        _PROMPT_BY_SOURCE,
        _PROMPT_CACHED,
        _CACHE_QUERIES,
        _CACHE_HITS,
        _EXTERNAL_HITS,
        _GENERATION,
        _FINISHED,
        _TTFT,
        _ITL,
    ),
    model_labels=("model_name",),
    # production-stack's router prints the engines' names with the backend in `server`.
    router_labels=frozenset({"server"}),
    # `/metrics/` is prometheus_client's own application and honours name[]; `/metrics` is not and does not.
    filters_by_name=True,
    read=_read,
)
