"""SGLang: 0.4 to 0.5, and 0.3 as far as its names survived.

* Rates come from `realtime_tokens_total`, which moves with every forward pass (from 0.5.9 on). `prompt_tokens_total`
  and `generation_tokens_total` move when a request finishes, in every version; they are read only where the realtime
  family is absent, and the reading says so.
* Once the realtime family is printed, a mode of it that is not there yet is missing, not taken from the other counters:
  two sources would make one jump.
* An encoder (`--encoder-only`) prints none of this. What it has in flight is what it received less what has ended; it
  does not tell its queue from its batch, and before its first request it prints nothing at all.
* `num_queue_reqs` contains neither requests that wait for a grammar nor the queues of prefill/decode separation.
"""

from __future__ import annotations

from controller.engines.histograms import Unobserved
from controller.engines.names import counter, gauge, histogram
from controller.engines.profile import PROCESS_START, Draft, Profile
from controller.engines.reading import EngineReading, MissingReason, Quality, Role
from controller.engines.view import View, every_rank

_RUNNING = gauge("num_running_reqs")
_QUEUE = gauge("num_queue_reqs")
_GRAMMAR_QUEUE = gauge("num_grammar_queue_reqs")
# Prefill side: waiting for the handshake with the decode side (`prealloc` from 0.4.9 to 0.5.9).
_BOOTSTRAP_QUEUE = gauge("num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs")
# Prefill side: computed, blocks being fetched (0.4.9 misspelled it).
_INFLIGHT_QUEUE = gauge("num_prefill_inflight_queue_reqs", "num_prefill_infight_queue_reqs")
# Decode side: these hold requests whose prefill may not be finished (sglang#21396).
_PREALLOC_QUEUE = gauge("num_decode_prealloc_queue_reqs")
_TRANSFER_QUEUE = gauge("num_decode_transfer_queue_reqs")
_HOST_RECEIVE_QUEUE = gauge("num_decode_host_receive_queue_reqs")
_KV_USAGE = gauge("token_usage")
_REALTIME = counter("realtime_tokens")
_PROMPT = counter("prompt_tokens")
_CACHED = counter("cached_tokens")
_GENERATION = counter("generation_tokens")
_FINISHED = counter("num_requests")
_ENCODER_RECEIVED = counter("encoder_requests_received")
_ENCODER_ENDED = counter("encoder_requests")  # success and error
_TTFT = histogram("time_to_first_token_seconds")
_ITL = histogram("inter_token_latency_seconds", "time_per_output_token_seconds")  # renamed in 0.4.6

_KV_QUEUES = (_PREALLOC_QUEUE, _TRANSFER_QUEUE, _HOST_RECEIVE_QUEUE)
_GAUGES = (_RUNNING, _QUEUE, _KV_USAGE, _BOOTSTRAP_QUEUE)
_ROLE_OF_TYPE = {"prefill": Role.PREFILL, "decode": Role.DECODE}


def _read(draft: Draft) -> EngineReading:
    view = draft.view
    if view.has(_ENCODER_RECEIVED):
        return _read_encoder(draft)
    role = _role(draft)
    basis, computed, cached, generated = _tokens(draft)
    if role is Role.PREFILL:
        for field in ("ttft", "itl"):
            draft.skip(field, MissingReason.NOT_THIS_ROLE, "a prefill process does not see the tokens of its requests")
    if role is Role.DECODE and view.has(_TTFT):
        draft.quality.add(Quality.TTFT_EXCLUDES_PREFILL)
    return EngineReading(
        engine="sglang",
        running_requests=draft.take("running_requests", every_rank, view, _RUNNING, _GAUGES),
        waiting_requests=draft.take("waiting_requests", _waiting, view),
        deferred_requests=draft.take("deferred_requests", _deferred, view),
        kv_waiting_requests=draft.take("kv_waiting_requests", _kv_waiting, view),
        handover_requests=draft.take("handover_requests", view.total, _INFLIGHT_QUEUE),
        queues=_queues(draft),
        computed_prompt_tokens=computed,
        cached_prompt_tokens=cached,
        generation_tokens=generated,
        finished_requests=draft.take("finished_requests", view.total, _FINISHED),
        counter_basis=basis,
        ttft=None if role is Role.PREFILL else draft.histogram("ttft", _TTFT),
        itl=None if role is Role.PREFILL else draft.histogram("itl", _ITL),
        kv_cache_usage=draft.take("kv_cache_usage", view.share, _KV_USAGE),
        process_start_time_seconds=draft.take("process_start_time_seconds", view.single, PROCESS_START),
    )


def _read_encoder(draft: Draft) -> EngineReading:
    running = draft.take("running_requests", _encoding, draft.view)
    return EngineReading(
        engine="sglang",
        running_requests=running,
        waiting_requests=None if running is None else 0.0,  # those are among the running
        finished_requests=draft.take("finished_requests", draft.view.optional_total, _ENCODER_ENDED),
        counter_basis="encoder_requests",
    )


def _encoding(view: View) -> float:
    # An ended request is counted for the first time when one has ended.
    encoding = view.total(_ENCODER_RECEIVED) - (view.optional_total(_ENCODER_ENDED) or 0.0)
    if encoding < 0:
        raise Unobserved(MissingReason.INCONSISTENT, "more requests ended than were received")
    return encoding


def _role(draft: Draft) -> Role | None:
    """The role we were told, else the one the process prints (mid-2025 builds print `unified` on every process)."""
    if draft.role is not None:
        return draft.role
    types = draft.view.label_values("engine_type")
    return _ROLE_OF_TYPE.get(types.pop()) if len(types) == 1 else None


def _waiting(view: View) -> float:
    others = (_GRAMMAR_QUEUE, _BOOTSTRAP_QUEUE, *_KV_QUEUES)
    return every_rank(view, _QUEUE, _GAUGES) + sum(view.optional_total(queue) or 0.0 for queue in others)


def _kv_waiting(view: View) -> float:
    printed = [queue for queue in _KV_QUEUES if view.has(queue)]
    if not printed:
        raise Unobserved(MissingReason.ABSENT, "no queue of the decode side")
    return sum(view.total(queue) for queue in printed)


def _deferred(view: View) -> float:
    printed = [queue for queue in (_GRAMMAR_QUEUE, *_KV_QUEUES) if view.has(queue)]
    if not printed:
        raise Unobserved(MissingReason.ABSENT, "no queue of requests that cannot be scheduled")
    return sum(view.total(queue) for queue in printed)


def _queues(draft: Draft) -> tuple[tuple[str, float], ...]:
    return (
        *draft.queues("queue", _QUEUE),
        *draft.queues("grammar", _GRAMMAR_QUEUE),
        *draft.queues("prefill_bootstrap", _BOOTSTRAP_QUEUE),
        *draft.queues("prefill_inflight", _INFLIGHT_QUEUE),
        *draft.queues("decode_prealloc", _PREALLOC_QUEUE),
        *draft.queues("decode_transfer", _TRANSFER_QUEUE),
        *draft.queues("decode_host_receive", _HOST_RECEIVE_QUEUE),
    )


def _tokens(draft: Draft) -> tuple[str, float | None, float | None, float | None]:
    """(which series, computed prompt tokens, cached prompt tokens, generated tokens)."""
    view = draft.view
    if view.has(_REALTIME):
        return (
            "realtime_tokens",
            draft.take("computed_prompt_tokens", view.total, _REALTIME, mode="prefill_compute"),
            draft.take("cached_prompt_tokens", view.total, _REALTIME, mode="prefill_cache"),
            draft.take("generation_tokens", view.total, _REALTIME, mode="decode"),
        )
    if view.has(_PROMPT) or view.has(_GENERATION):
        draft.quality.add(Quality.FINISH_TIME_COUNTERS)
    if view.has(_PROMPT) and not view.has(_CACHED):
        draft.quality.add(Quality.CACHED_TOKENS_UNKNOWN)
    return (
        "prompt_tokens",
        draft.take("computed_prompt_tokens", _finished_prompt_tokens, view),
        draft.take("cached_prompt_tokens", view.total, _CACHED),
        draft.take("generation_tokens", view.total, _GENERATION),
    )


def _finished_prompt_tokens(view: View) -> float:
    # Both are counted when a request finishes, so the difference never falls. Without a hit so far there is no series.
    computed = view.total(_PROMPT) - (view.optional_total(_CACHED) or 0.0)
    if computed < 0:
        raise Unobserved(MissingReason.INCONSISTENT, "more cached than prompt tokens")
    return computed


SGLANG = Profile(
    engine="sglang",
    prefixes=("sglang:", "sglang_"),
    families=(
        _RUNNING,
        _QUEUE,
        _GRAMMAR_QUEUE,
        _BOOTSTRAP_QUEUE,
        _INFLIGHT_QUEUE,
        _PREALLOC_QUEUE,
        _TRANSFER_QUEUE,
        _HOST_RECEIVE_QUEUE,
        _KV_USAGE,
        _REALTIME,
        _PROMPT,
        _CACHED,
        _GENERATION,
        _FINISHED,
        _ENCODER_RECEIVED,
        _ENCODER_ENDED,
        _TTFT,
        _ITL,
    ),
    model_labels=("model_name", "name"),  # `name` in 0.3
    # The gateway's /engine_metrics repeats the series of all workers.
    router_labels=frozenset({"worker_addr"}),
    read=_read,
)
