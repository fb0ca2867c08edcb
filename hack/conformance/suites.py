"""How each suite's inputs map to a function, and how its expectation is compared.

A suite is named by the `id` in its file. Where it describes a rule of our core, it runs our core; where it describes
a rule that ours replaces on purpose, it runs the rival in `controller.simulation.baselines`. No vector is
special-cased.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from controller.scaling import (
    DirectionBehavior,
    PolicyType,
    ScalingPolicy,
    SelectPolicy,
    kalman,
    proportional,
)
from controller.scaling.history import History, highest, recorded
from controller.scaling.stages.stabilization import window_bounds
from controller.scaling.stages.step import down_limit, up_limit
from controller.scaling.state import ScaleEvent
from controller.simulation.baselines import aibrix, dynamo, dynamo_budget, hpa, keda, kpa, wva

Inputs = Mapping[str, Any]
Suite = Callable[[Inputs], Any]

# The beginning of time for a history that knows everything.
_ALWAYS = -1e12


def hpa_resource(given: Inputs) -> int:
    pods = [hpa.Pod(hpa.PodState(pod["state"]), pod.get("use") or 0.0, pod.get("req") or 0.0) for pod in given["pods"]]
    return hpa.resource_replicas(given["current"], given["target_percent"], pods, _tolerance(given))


def hpa_pods_metric(given: Inputs) -> int:
    """Our own Proportional."""
    reporting = [pod["value"] for pod in given["pods"] if pod["state"] == "ready"]
    states = [pod["state"] for pod in given["pods"]]
    tolerance = _tolerance(given)
    return proportional.average_value_replicas(
        given["current"],
        proportional.Reading(
            total=sum(reporting),
            reporting=len(reporting),
            silent=states.count("missing"),
            pending=states.count("unready"),
        ),
        given["target"],
        proportional.Tolerance(tolerance.up, tolerance.down),
    )


def hpa_total_value(given: Inputs) -> int:
    return hpa.total_value_replicas(
        given["current"], given.get("ready", given["current"]), given["value"], given["target"], _tolerance(given)
    )


def hpa_average_value(given: Inputs) -> int:
    return hpa.average_value_replicas(
        given["status_replicas"], given["value"], given["target_average"], _tolerance(given)
    )


def hpa_multi_metric(given: Inputs) -> int:
    return hpa.combined(given["current"], given["proposals"])


def hpa_legacy_clamp(given: Inputs) -> int:
    return hpa.legacy_limited(given["current"], given["desired"], given["min"], given["max"])


def hpa_behavior_rate(given: Inputs) -> int:
    """Our own step stage, then the bounds."""
    now, current = 0.0, given["current"]
    events = tuple(
        ScaleEvent(now - event["age"], event["delta"]) for event in sorted(given["events"], key=lambda e: -e["age"])
    )
    rules = {name: _direction(rule) for name, rule in given["rules"].items()}
    desired = max(given["min"], min(given["desired"], given["max"]))
    if desired > current and "up" in rules:
        desired = min(desired, up_limit(current, rules["up"], events, now))
    elif desired < current and "down" in rules:
        desired = max(desired, down_limit(current, rules["down"], events, now))
    return max(given["min"], min(desired, given["max"]))


def hpa_stabilize(given: Inputs) -> int:
    """Our own windows, with a history that is known for as long as they ask."""
    legacy = given.get("legacy_down_window")
    up_window = 0.0 if legacy is not None else float(given["up_window"])
    down_window = float(given["down_window"] if legacy is None else legacy)
    history = History(known_since=_ALWAYS, last=_ALWAYS)
    for item in sorted(given["history"], key=lambda item: -item["age"]):
        history = _told(history, -float(item["age"]), item["rec"], up_window, down_window)
    if legacy is not None:
        kept = highest(history, 0.0, down_window)
        return max(given["desired"], kept.replicas if kept else 0)
    limits = window_bounds(
        history, given["current"], given["desired"], up_window=up_window, down_window=down_window, now=0.0
    )
    return max(limits.floor, min(given["desired"], limits.ceiling))


def kpa_scale(given: Inputs) -> list[list[Any]]:
    config = given["config"]
    settings = kpa.Settings(
        target=config["target"],
        total_per_pod=config.get("total", config["target"] / 0.75),
        burst_capacity=config["tbc"],
        max_up_rate=config.get("up", 10.0),
        max_down_rate=config.get("down", 10.0),
        panic_threshold=config.get("thr", 2.0),
        stable_seconds=config.get("stable", 60.0),
        scale_down_delay_seconds=config.get("delay", 0.0),
        activation_scale=config.get("act", 1),
        reachable=config.get("reach", True),
    )
    began = config.get("panic_at")
    autoscaler = kpa.Autoscaler(settings, None if began is None else kpa.Panic(began, config.get("maxp", 0)))
    ready, outcome = config.get("ready", 1), []
    for tick in given["ticks"]:
        ready = tick.get("ready", ready)
        scale = autoscaler.scale(tick["t"], tick["stable"], tick["panic"], ready)
        outcome.append([scale.replicas, scale.excess_burst_capacity, scale.panicking])
    return outcome


def kpa_invalid(given: Inputs) -> Any:
    if given.get("metric_error") or given.get("pod_count_error"):
        return "hold"
    panic = kpa.started(given["ready_at_start"], 0.0)
    return {"panic": panic is not None, "floor": panic.floor if panic else 0}


def kpa_max_window(given: Inputs) -> list[int]:
    """Our own running maximum, one slot a second."""
    history, window, seen = History(known_since=_ALWAYS, last=_ALWAYS), float(given["window"]), []
    for index, value in zip(given["index"], given["values"], strict=True):
        history = _told(history, float(index), value, 0.0, window)
        top = highest(history, float(index), window)
        seen.append(top.replicas if top else None)
    return seen


def kpa_window_average(given: Inputs) -> float:
    window = kpa.WindowAverage(given.get("window", 5))
    for record in given["records"]:
        window.record(record["t"], record["v"])
    return window.average(given["read_at"])


def kpa_sample_size(given: Inputs) -> int:
    return kpa.sample_size(given["pods"])


def kpa_target(given: Inputs) -> list[float]:
    rps = given["metric"] == "rps"
    target = kpa.targets(
        given.get("default", 200 if rps else 100),
        given.get("util", 0.7 if rps else 1.0),
        container_concurrency=given.get("container_concurrency"),
        annotation=given.get("annotation"),
        rps=rps,
    )
    return list(target)


def aibrix_apa(given: Inputs) -> int:
    tolerance = _tolerance(given)
    limits = aibrix.Limits(given["max_up"], given["max_down"], tolerance.up, tolerance.down)
    return aibrix.apa_replicas(given["current"], given["use_per_pod"], given["target"], limits)


def aibrix_kpa(given: Inputs) -> int:
    return aibrix.kpa_replicas(
        given["ready"],
        given["target"],
        (given["stable"], given["panic"]),
        aibrix.Limits(given.get("up", 2.0), given.get("down", 2.0)),
        panicking=given["in_panic"],
        panic_floor=given.get("floor", 0),
        activation=given.get("activation", 0),
    )


def wva_saturation(given: Inputs) -> dict[str, bool]:
    replicas = [wva.Replica(replica["kv"], replica["queue"]) for replica in given["replicas"]]
    return {"scale_up": wva.scale_up(replicas), "scale_down_safe": wva.scale_down_safe(replicas)}


def wva_capacity(given: Inputs) -> float:
    flags = 0.0
    if "B" in given and "S" in given:
        flags = wva.capacity_from_flags(given["B"], given["S"], given.get("Iq", 0.0), given.get("O", 0.0))
    history = given.get("history") or ()
    return wva.token_capacity(given["kv"], given["inuse"], given["q"], history=history, from_flags=flags)


def wva_params(given: Inputs) -> float:
    return wva.capacity_from_flags(given["B"], given["S"], given["I"], given["O"])


def wva_cost(given: Inputs) -> dict[str, int]:
    variants = [wva.Variant(v["name"], v["cost"], v["capacity"], v["replicas"]) for v in given["variants"]]
    return wva.cost_aware(variants, given["required"], given["spare"])


def keda_fallback(given: Inputs) -> float:
    behavior = keda.FallbackBehavior(given["behavior"])
    return keda.fallback_value(behavior, given["replicas"], given.get("current", 0), given["target"])


def dynamo_replicas(given: Inputs) -> dict[str, int]:
    prefill, decode = dynamo.replicas(
        dynamo.Traffic(
            requests=given["num_req"],
            prompt_tokens=given["isl"],
            output_tokens=given["osl"],
            interval_seconds=given.get("interval", 60),
            prefill_tokens_per_second=given["prefill_tok_s_gpu"],
            decode_tokens_per_second=given["decode_tok_s_gpu"],
            prefill_gpus=given.get("prefill_gpus", 1),
            decode_gpus=given.get("decode_gpus", 1),
            prefill_correction=given.get("prefill_correction", 1.0),
            minimum=given.get("min_endpoint", 1),
        )
    )
    return {"prefill": prefill, "decode": decode}


def dynamo_gpu_band(given: Inputs) -> bool:
    return dynamo_budget.in_band(given["total"], given["min"], given["max"], given.get("tolerance", 0))


def dynamo_clamp_pair(given: Inputs) -> dict[str, Any]:
    band, pair = _band(given), dynamo_budget.Pair(given["p"], given["d"])
    final = dynamo_budget.clamped(pair, band)
    return {"pair": list(final), "p": final.prefill, "d": final.decode, "total_gpus": band.cost(final)}


def dynamo_single_guard(given: Inputs) -> list[Any]:
    count, reason = dynamo_budget.guarded_single(
        given["current"], given["proposed"], given["gpu"], given["min_gpu"], given["max_gpu"], given["min_endpoint"]
    )
    return [count, reason]


def dynamo_pair_fit(given: Inputs) -> list[int]:
    current, proposed = dynamo_budget.Pair(*given["current"]), dynamo_budget.Pair(*given["proposed"])
    return list(dynamo_budget.fitted(current, proposed, _band(given)))


def dynamo_pair_guard(given: Inputs) -> list[Any]:
    current, proposed = dynamo_budget.Pair(*given["current"]), dynamo_budget.Pair(*given["proposed"])
    pair, reason = dynamo_budget.guarded(current, proposed, _band(given))
    return [*pair, reason]


def dynamo_throughput_pair(given: Inputs) -> dict[str, Any]:
    raw = given.get("raw") or (None, None)
    decision = dynamo_budget.throughput(
        dynamo_budget.Pair(*given["current"]),
        (raw[0], raw[1]),
        _band(given),
        cap=given["cap"],
        load_scaling=given["load_scaling"],
    )
    if decision.floors:
        return {"floor": list(decision.pair)}
    return {"scale": list(decision.pair)} if decision.scales else {"hold": decision.reason}


def dynamo_thresholds(given: Inputs) -> int:
    return dynamo.threshold_replicas(given["role"], given["mode"], given["load_per_worker"])


def dynamo_consolidation(given: Inputs) -> int:
    return dynamo.consolidated_replicas(
        given["workers"], given["kv_per_worker"], given["itl_sla_ms"], given["max_kv"], given["sensitivity"]
    )


def dynamo_predictor(given: Inputs) -> dict[str, Any]:
    predictor = dynamo.Predictor()
    if given["kind"] == "kalman":
        noise = kalman.Noise(given.get("q_level", 1e-4), given.get("q_trend", 1e-5), given.get("r", 0.1))
        predictor = dynamo.KalmanPredictor(noise=noise, minimum_points=given.get("min_points", 3))
    forecasts = [predictor.forecast()]
    for value in given["series"]:
        predictor.add(float(value))
        forecasts.append(predictor.forecast())
    again = predictor.forecast()
    return {
        "forecast": again,
        "buffered": len(predictor.buffer),
        "minimum_forecast": min(forecasts),
        "repeated": [forecasts[-1], again],
    }


def kalman_derived(given: Inputs) -> list[list[float]]:
    """Our own filter, started as the series was computed."""
    noise = kalman.Noise(given["q_level"], given["q_trend"], given["r"])
    trend, seen = None, []
    for value in given["series"]:
        if trend is None:
            trend = kalman.started(float(value), dynamo.START_VARIANCE, dynamo.START_VARIANCE)
        else:
            trend = kalman.updated(kalman.advanced(trend, 1.0, noise), float(value), noise)
        seen.append([trend.level, trend.slope, kalman.extrapolated(trend, given["horizon_steps"])])
    return seen


SUITES: dict[str, Suite] = {
    "aibrix.apa": aibrix_apa,
    "aibrix.kpa": aibrix_kpa,
    "dynamo.clamp-pair": dynamo_clamp_pair,
    "dynamo.consolidation": dynamo_consolidation,
    "dynamo.easy-thresholds": dynamo_thresholds,
    "dynamo.gpu-band": dynamo_gpu_band,
    "dynamo.pair-fit": dynamo_pair_fit,
    "dynamo.pair-guard": dynamo_pair_guard,
    "dynamo.predictor-contract": dynamo_predictor,
    "dynamo.replica-formula": dynamo_replicas,
    "dynamo.single-guard": dynamo_single_guard,
    "dynamo.throughput-pair": dynamo_throughput_pair,
    "hpa.average-value": hpa_average_value,
    "hpa.behavior-rate": hpa_behavior_rate,
    "hpa.legacy-clamp": hpa_legacy_clamp,
    "hpa.multi-metric": hpa_multi_metric,
    "hpa.pods-metric": hpa_pods_metric,
    "hpa.resource": hpa_resource,
    "hpa.stabilize": hpa_stabilize,
    "hpa.total-value": hpa_total_value,
    "kalman.derived": kalman_derived,
    "keda.fallback": keda_fallback,
    "kpa.invalid": kpa_invalid,
    "kpa.max-window": kpa_max_window,
    "kpa.sample-size": kpa_sample_size,
    "kpa.scale": kpa_scale,
    "kpa.target": kpa_target,
    "kpa.window-average": kpa_window_average,
    "wva.capacity-v2": wva_capacity,
    "wva.cost-aware": wva_cost,
    "wva.params-capacity": wva_params,
    "wva.saturation-v1": wva_saturation,
}


def agrees(expected: Any, actual: Any) -> bool:
    """Whether a result is what was expected.

    Numbers agree to six decimals. An expected object lists what must hold of the result's parts: equality, or by the
    name's ending `_between` [low, high], `_at_most`, `_at_least`. A bare expectation beside a result with a `pair` or a
    `forecast` is about that part.
    """
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(_holds(name, value, actual) for name, value in expected.items())
    if isinstance(actual, dict):
        main = next((actual[name] for name in ("pair", "forecast") if name in actual), None)
        return agrees(expected, main)
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(agrees(one, other) for one, other in zip(expected, actual, strict=True))
        )
    if isinstance(expected, bool) or expected is None or isinstance(expected, str):
        return bool(expected == actual)
    if isinstance(actual, bool) or not isinstance(actual, int | float):
        return False
    return math.isclose(expected, actual, rel_tol=1e-9, abs_tol=1.5e-6)


def _holds(name: str, expected: Any, actual: Mapping[str, Any]) -> bool:
    for ending in ("_between", "_at_most", "_at_least"):
        if name.endswith(ending):
            part = actual.get(name.removesuffix(ending))
            if part is None:
                return False
            low, high = expected if ending == "_between" else (expected, expected)
            return (ending == "_at_most" or part >= low - 1e-9) and (ending == "_at_least" or part <= high + 1e-9)
    return name in actual and agrees(expected, actual[name])


def _tolerance(given: Inputs) -> hpa.Tolerance:
    tolerance = given.get("tolerance") or {}
    return hpa.Tolerance(tolerance.get("up", 0.1), tolerance.get("down", 0.1))


def _direction(rule: Inputs) -> DirectionBehavior:
    types = {"Pods": PolicyType.REPLICAS, "Percent": PolicyType.PERCENT}
    return DirectionBehavior(
        stabilization_window_seconds=0.0,
        policies=tuple(
            ScalingPolicy(type=types[policy["type"]], value=policy["value"], period_seconds=float(policy["period"]))
            for policy in rule.get("policies") or ()
        ),
        select_policy=SelectPolicy(rule.get("select") or "Max"),
    )


def _told(history: History, now: float, replicas: int, up_window: float, down_window: float) -> History:
    return recorded(
        history,
        now,
        replicas,
        up_window_seconds=up_window,
        down_window_seconds=down_window,
        longest_gap=math.inf,
    )


def _band(given: Inputs) -> dynamo_budget.Band:
    return dynamo_budget.Band(
        least=given["min_gpu"],
        most=given["max_gpu"],
        prefill_gpus=given.get("p_gpu", 1),
        decode_gpus=given.get("d_gpu", 1),
        fewest=dynamo_budget.Pair(given.get("p_min", 1), given.get("d_min", 1)),
    )
