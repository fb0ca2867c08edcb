"""The record of a decision: what was seen, what every stage did, in figures and words."""

from __future__ import annotations

from controller.scaling.capacity_factor import value
from controller.scaling.histograms import Quantile
from controller.scaling.recommendation import Recommended
from controller.scaling.situation import Situation
from controller.scaling.stages import RolePlan
from controller.scaling.startup import startup_quantile
from controller.scaling.types import Observed, RoleDecision, RoleKind
from controller.scaling.windows import mean


def explained(situation: Situation, recommended: Recommended, planned: RolePlan, stable_seconds: float) -> RoleDecision:
    """One role's chain raw → desired with everything that was known."""
    return RoleDecision(
        name=planned.name,
        current=planned.current,
        raw=recommended.raw,
        desired=planned.desired,
        limited_by=planned.limited_by,
        stages=planned.records,
        observed=_observed(situation, stable_seconds),
        algorithm_reason=recommended.reason,
        next_change_time=planned.next_change_time or recommended.next_change_time,
        metrics=situation.tick.status,
        last_sample_time=situation.state.sampled_at,
        capacity_factor=None if situation.capacity is None else value(situation.state.factor, situation.capacity),
        startup_p50_seconds=startup_quantile(situation.state.startups_seconds, 0.5),
        startup_p90_seconds=situation.startup_p90_seconds,
        startup_stalled_replicas=situation.supply.stalled,
        learned=recommended.learned,
        forecast=recommended.forecast,
    )


def _observed(situation: Situation, stable_seconds: float) -> Observed:
    flows, now, kind = situation.state.flows, situation.now, situation.role.kind
    ttft, itl = situation.latencies.ttft, situation.latencies.itl
    seconds = served = prompt = generation = 0.0
    for flow in flows:
        if flow.served is not None and flow.end > now - stable_seconds:
            seconds += flow.seconds
            served += flow.served * flow.seconds
            prompt += (flow.prompt or 0.0) * flow.seconds
            generation += (flow.generation or 0.0) * flow.seconds
    return Observed(
        demand_tokens_per_second=mean(flows, now, stable_seconds).low,
        served_tokens_per_second=served / seconds if seconds else None,
        running_requests=situation.tick.running,
        waiting_requests=situation.tick.waiting,
        ttft_milliseconds=_milliseconds(ttft.value) if ttft else None,
        itl_milliseconds=_milliseconds(itl.value) if itl else None,
        ttft_interval_milliseconds=_interval(ttft),
        itl_interval_milliseconds=_interval(itl),
        # Of a prefill or decode role alone it says nothing: each sees one side of the requests.
        input_output_ratio=prompt / generation if kind is RoleKind.SERVER and generation > 0.0 else None,
        coverage=situation.tick.coverage,
    )


def _interval(found: Quantile | None) -> tuple[float, float | None] | None:
    return None if found is None else (found.lower * 1e3, _milliseconds(found.upper))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
