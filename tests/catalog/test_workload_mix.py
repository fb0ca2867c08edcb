"""Capacity at another mix: the published worked examples, and the laws of the formulas."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.identity import parse_identity
from catalog.loading import load_embedded
from catalog.prediction import ObservedMix, best_concurrency, predict, predict_latency
from catalog.schema import Profile
from catalog.workload_mix import Curve, CurvePoint, MixFit, MixRefusal, fit_curves, fit_profiles
from hack.bench.priors import curves_by_family, held_out_cases, naive, official_files, summary
from tests.catalog.builders import catalog, point_document, profile_document

MICROSECONDS = 1e-6


def _official() -> dict[str, Profile]:
    identity = parse_identity("Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h200/gpus=2,tp=2")
    return {profile.workload.label: profile for profile in load_embedded().index.profiles(identity)}


def _fit(*labels: str) -> MixFit:
    fit = fit_profiles([_official()[label] for label in labels])
    assert isinstance(fit, MixFit)
    return fit


def _stated(m: float, **lengths: float) -> ObservedMix:
    return ObservedMix(input_per_output=m, stated=True, **lengths)


def test_worked_example_a_two_workloads_predict_the_third() -> None:
    fit = _fit("1024/1024", "1024/8192")
    assert fit.prior_a / MICROSECONDS == pytest.approx(22.503, abs=0.001)
    assert fit.prior_tau == pytest.approx(0.360, abs=0.0005)
    assert fit.a / MICROSECONDS == pytest.approx(21.915, abs=0.001)
    assert fit.sd_a / MICROSECONDS == pytest.approx(5.786, abs=0.001)
    assert fit.residual == pytest.approx(0.0167, abs=0.0001)
    index = fit.at(32)
    assert index is not None
    assert fit.b[index] / MICROSECONDS == pytest.approx(321.5, abs=0.05)
    assert fit.rho(32) == pytest.approx(0.0682, abs=0.0001)
    found = predict(fit, 32, _stated(7.9423))
    assert found is not None
    assert found.output == pytest.approx(2017.9, abs=0.1)
    assert found.total == pytest.approx(18_044, abs=1)
    assert found.sigma == pytest.approx(0.095, abs=0.0005)
    assert found.low == pytest.approx(15_972, abs=1)
    latency = predict_latency(fit, 32, _stated(7.9423, mean_input_tokens=7372.8, mean_output_tokens=921.6))
    assert latency.tpot == pytest.approx(0.0152, abs=0.0001)
    assert latency.itl == pytest.approx(0.00990, abs=0.00001)
    assert latency.ttft == pytest.approx(0.231, rel=0.02)


def test_worked_example_b_one_prefill_heavy_workload() -> None:
    fit = _fit("8192/1024")
    assert fit.a / MICROSECONDS == pytest.approx(27.359, abs=0.001)
    assert fit.a == pytest.approx(fit.prior_a, rel=1e-12)
    assert fit.prior_tau == pytest.approx(0.153, abs=0.0005)
    index = fit.at(64)
    assert index is not None
    assert fit.b[index] / MICROSECONDS == pytest.approx(418.6 - 219.3, abs=0.1)
    found = predict(fit, 64, _stated(1.0005))
    assert found is not None
    assert found.total == pytest.approx(8_822, abs=1)
    assert found.sigma == pytest.approx(0.135, abs=0.0005)
    assert found.low == pytest.approx(7_418, abs=1)


def test_worked_example_c_one_balanced_workload() -> None:
    fit = _fit("1024/1024")
    assert fit.a / MICROSECONDS == pytest.approx(22.644, abs=0.002)
    found = predict(fit, 32, _stated(7.94232))
    assert found is not None
    assert found.total == pytest.approx(17_799, abs=1)
    assert found.sigma == pytest.approx(0.120, abs=0.0005)
    assert found.low == pytest.approx(15_273, abs=1)


def test_worked_example_d_a_mix_in_between() -> None:
    found = predict(_fit("1024/1024", "1024/8192"), 32, _stated(4.0))
    assert found is not None
    assert (found.total, found.output) == pytest.approx((12_219, 2_444), abs=1)


def test_held_out_workloads_are_predicted_within_the_published_bounds() -> None:
    families = curves_by_family(official_files(None))
    two, one = list(held_out_cases(families, 2)), list(held_out_cases(families, 1))
    assert len(two) > 400
    assert len(one) > 800
    bounds = {"two": (two, 0.04, 0.12, 0.95, 0.03), "one": (one, 0.05, 0.15, 0.90, 0.02)}
    for cases, middle, p90, accepted, over in bounds.values():
        figures = summary(cases)
        assert figures["median"] <= middle
        assert figures["p90"] <= p90
        assert figures["accepted"] >= accepted
        assert figures["overByQuarter"] <= over
        assert figures["lowerBoundHolds"] >= 0.90
        rivals = naive(cases)
        assert rivals["sameOutput"]["p90"] >= 3 * figures["p90"]
        assert rivals["sameTotal"]["median"] >= 15 * figures["median"]


REFUSALS: dict[str, tuple[ObservedMix, MixRefusal | None]] = {
    "a stated mix is believed": (_stated(4.0), None),
    "enough live requests": (ObservedMix(input_per_output=4.0, mean_input_tokens=900.0, requests=200), None),
    "too few requests": (
        ObservedMix(input_per_output=4.0, mean_input_tokens=900.0, requests=199),
        MixRefusal.TOO_FEW_REQUESTS,
    ),
    "unknown lengths": (ObservedMix(input_per_output=4.0, requests=1000), MixRefusal.TOO_FEW_REQUESTS),
    "prompts beyond twice the longest measured": (
        _stated(4.0, mean_input_tokens=2000.0),
        MixRefusal.LENGTHS_BEYOND_MEASURED,
    ),
    "a mix too far from any measured one": (_stated(60.0), MixRefusal.SIGMA_TOO_LARGE),
}


@pytest.mark.parametrize(("mix", "refusal"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_prediction_is_refused_for_a_named_reason(mix: ObservedMix, refusal: MixRefusal | None) -> None:
    found = predict(_fit("1024/1024", "1024/8192"), 32, mix)
    assert found is not None
    assert found.refusal is refusal


def test_cached_prompt_tokens_cost_nothing_but_count_in_the_total() -> None:
    fit = _fit("1024/1024", "8192/1024")
    cold, warm = (
        predict(fit, 32, _stated(8.0)),
        predict(fit, 32, ObservedMix(input_per_output=8.0, stated=True, hit_ratio=0.9)),
    )
    plain = predict(fit, 32, _stated(0.8))
    assert cold is not None
    assert warm is not None
    assert plain is not None
    assert warm.output == pytest.approx(plain.output)
    assert warm.total == pytest.approx(9 * warm.output)
    assert warm.total > 1.5 * cold.total
    # An uncertain hit ratio makes the prediction uncertain.
    assert warm.sigma > plain.sigma


def test_prefill_profiles_are_not_converted() -> None:
    profile = catalog(profile_document(role="Prefill")).profiles[0]
    assert fit_profiles([profile]) is MixRefusal.NOT_SERVER


def test_cold_points_are_left_out_of_the_fit() -> None:
    points = [point_document(4, 3600.0, 720.0), point_document(8, flags=["ColdTail"])]
    fit = fit_profiles([catalog(profile_document(points=points)).profiles[0]])
    assert isinstance(fit, MixFit)
    assert fit.grid == (4,)
    only_cold = [point_document(8, flags=["ColdTail"])]
    assert fit_profiles([catalog(profile_document(points=only_cold)).profiles[0]]) is MixRefusal.NO_CLEAN_POINTS


def test_an_unmeasured_concurrency_is_not_predicted() -> None:
    assert predict(_fit("1024/1024"), 33, _stated(1.0)) is None


def test_the_best_concurrency_keeps_guarded_targets_and_the_common_range() -> None:
    fit = _fit("1024/1024", "8192/1024")
    mix = _stated(4.0, mean_input_tokens=4096.0, mean_output_tokens=1024.0)
    free = best_concurrency(fit, mix, ttft_seconds=None, tpot_seconds=None)
    assert free is not None
    assert free.concurrency == fit.largest_common
    bound = best_concurrency(fit, mix, ttft_seconds=None, tpot_seconds=0.012)
    assert bound is not None
    assert bound.concurrency < free.concurrency
    latency = predict_latency(fit, bound.concurrency, mix)
    assert latency.tpot is not None
    assert latency.tpot * 1.1 <= 0.012
    assert best_concurrency(fit, mix, ttft_seconds=0.0001, tpot_seconds=None) is None


def _synthetic(a: float, b: float, *mixes: float) -> list[Curve]:
    def points(m: float) -> tuple[CurvePoint, ...]:
        return tuple(CurvePoint(c, (b / c**0.7) + a * m, m, None, None, None) for c in (4, 8, 16, 32))

    return [Curve(1000.0 * m, 1000.0, points(m)) for m in mixes]


@given(st.floats(5e-6, 8e-5), st.floats(2e-3, 2e-2), st.floats(0.2, 12))
def test_a_linear_replica_is_recovered_from_three_workloads(a: float, b: float, m: float) -> None:
    fit = fit_curves(_synthetic(a, b, 0.125, 1.0, 8.0))
    assert isinstance(fit, MixFit)
    found = predict(fit, 16, _stated(m))
    assert found is not None
    truth = 1 / (b / 16**0.7 + a * m)
    assert found.output == pytest.approx(truth, rel=0.12)


@given(st.floats(0.05, 20), st.floats(0.05, 20), st.sampled_from((4, 8, 16, 32, 64)))
def test_ratio_form_and_control_form_agree_with_the_prediction(m0: float, m: float, concurrency: int) -> None:
    fit = _FITTED
    first, second = predict(fit, concurrency, _stated(m0)), predict(fit, concurrency, _stated(m))
    assert first is not None
    assert second is not None
    rho = first.rho
    ratio = (1 + m) * (1 + rho * m0) / ((1 + m0) * (1 + rho * m))
    assert second.total == pytest.approx(first.total * ratio, rel=1e-9)
    # Demand in output equivalents over capacity 1/B gives the same number of replicas as total over total.
    index = fit.at(concurrency)
    assert index is not None
    demand = second.output + rho * second.output * m
    assert demand * fit.b[index] == pytest.approx(1.0, rel=1e-9)


@given(st.floats(0.05, 30), st.floats(0, 1))
def test_low_is_below_the_prediction_and_sigma_grows_away_from_the_measured_mix(m: float, hit: float) -> None:
    found = predict(_FITTED, 32, ObservedMix(input_per_output=m, stated=True, hit_ratio=hit))
    assert found is not None
    assert 0 < found.low < found.total
    assert found.sigma >= 0.04
    index = _FITTED.at(32)
    assert index is not None
    home = predict(_FITTED, 32, _stated(_FITTED.mean_m[index]))
    assert home is not None
    assert found.sigma >= home.sigma - 1e-12


_FITTED = _fit("1024/1024", "1024/8192", "8192/1024")


def test_no_workload_gives_no_fit() -> None:
    assert fit_curves([]) is MixRefusal.NO_CLEAN_POINTS
    assert fit_profiles([]) is MixRefusal.NOT_SERVER


def test_the_law_alone_serves_where_gaps_are_chunked() -> None:
    def chunked(profile: dict[str, Any]) -> MixFit:
        fit = fit_profiles([catalog(profile).profiles[0]])
        assert isinstance(fit, MixFit)
        return fit

    points = [
        point_document(c, 1000.0 * c, 200.0 * c, flags=["ChunkedITL"], tpotMilliseconds={"p99": "9"})
        for c in (4, 8, 16)
    ]
    fit = chunked(profile_document(points=points))
    assert fit.prior_tau == pytest.approx(0.45)
    law = [0.0355 * (c / 16) ** 0.69 / (200 * c) / (1 + 0.0355 * (c / 16) ** 0.69 * 4) for c in (4, 8, 16)]
    assert fit.prior_a == pytest.approx(median(law))
    assert math.isfinite(fit.sd_a)
