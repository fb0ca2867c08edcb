"""From identity and targets to capacity: the six outcomes, the choice of the workload, the fingerprint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from catalog.identity import parse_identity
from catalog.inference import Identified, RoleIdentity, infer_identity
from catalog.loading import CatalogCache, LoadedCatalog, load_embedded, load_text
from catalog.objects import role_inputs
from catalog.operating_point import LatencyTargets
from catalog.prediction import ObservedMix
from catalog.resolution import (
    DemandUnit,
    RolePrior,
    RoleRequest,
    resolve_role,
    resolve_scaler,
)
from catalog.workload_mix import MixRefusal
from controller.api import PointSelection, PriorReason, PriorWorkload
from tests.catalog.builders import DATA, load, point_document, profile_document
from tests.catalog.test_inference import ROLE, SECRET
from tests.work import counted

TARGETS = LatencyTargets(2000, 33)
GPT_OSS = "Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h200/gpus=1,tp=1"
QWEN = "Server/Qwen/Qwen3-8B/bf16/vllm/nvidia-h200/gpus=1,tp=1"


def _known(text: str) -> RoleIdentity:
    return Identified(parse_identity(text))


def _request(identity: str | RoleIdentity = GPT_OSS, **changes: Any) -> RoleRequest:
    known = _known(identity) if isinstance(identity, str) else identity
    return replace(RoleRequest("server", known, TARGETS), **changes)


def _sweep() -> LoadedCatalog:
    result = load_text((DATA / "h200-sweep.yaml").read_bytes(), "ConfigMap team-a/priors")
    assert isinstance(result, LoadedCatalog)
    return result


def _observed(ratio: float, **more: Any) -> ObservedMix:
    return ObservedMix(input_per_output=ratio, stated=True, **more)


def test_the_published_sweep_resolves_to_its_published_numbers() -> None:
    prior = resolve_role(_sweep(), _request(QWEN))
    capacity = prior.capacity
    assert capacity is not None
    assert capacity.seed_tokens_per_second == 17135.159
    assert capacity.effective_tokens_per_second == pytest.approx(12851.37, abs=0.005)
    assert (capacity.selection, capacity.concurrency) == (PointSelection.EXPLICIT_SATURATION, 32)
    assert capacity.curve[0] == (2, 1882.56)
    assert capacity.curve[-1] == (32, 17135.159)
    assert capacity.point.ttft is not None
    assert capacity.point.ttft.basis == "p90..p99"
    assert prior.message.endswith("17135.159 tokens/s at concurrency 32 (ExplicitSaturation) × 0.75 = 12851.37")


def test_without_a_mix_the_workload_of_lowest_capacity_serves() -> None:
    capacity = resolve_role(load_embedded(), _request()).capacity
    assert capacity is not None
    assert round(capacity.seed_tokens_per_second) == 714
    assert (capacity.workload, capacity.concurrency) == ("1024/8192", 4)


def test_a_prefill_heavy_mix_takes_the_prefill_heavy_workload() -> None:
    capacity = resolve_role(load_embedded(), _request(observed=_observed(8.0))).capacity
    assert capacity is not None
    assert round(capacity.seed_tokens_per_second) == 4621
    assert (capacity.workload, capacity.concurrency, capacity.selection) == ("8192/1024", 4, PointSelection.BRACKETED)


def test_after_a_restart_the_workload_that_served_before_serves_until_a_mix_is_observed() -> None:
    capacity = resolve_role(load_embedded(), _request(previous_workload="8192/1024")).capacity
    assert capacity is not None
    assert capacity.workload == "8192/1024"
    moved = resolve_role(load_embedded(), _request(previous_workload="8192/1024", observed=_observed(0.2))).capacity
    assert moved is not None
    assert moved.workload == "1024/8192"


@pytest.mark.parametrize(("requests", "workload"), [(199, "1024/8192"), (200, "8192/1024"), (None, "1024/8192")])
def test_a_mix_counts_as_observed_from_two_hundred_requests_on(requests: int | None, workload: str) -> None:
    observed = ObservedMix(input_per_output=8.0, mean_input_tokens=8000.0, requests=requests)
    capacity = resolve_role(load_embedded(), _request(observed=observed)).capacity
    assert capacity is not None
    assert capacity.workload == workload


def test_a_mix_on_the_border_does_not_flip_the_workload() -> None:
    # Halfway in log ratio between 1:1 and 8:1.
    served = []
    for previous in ("1024/1024", "8192/1024"):
        for ratio in (2.6, 2.9, 3.1):
            request = _request(previous_workload=previous, observed=_observed(ratio))
            capacity = resolve_role(load_embedded(), request).capacity
            assert capacity is not None
            served.append(capacity.workload)
    assert served == ["1024/1024"] * 3 + ["8192/1024"] * 3


OUTCOMES: dict[str, tuple[RoleRequest, PriorReason, str]] = {
    "an exact identity": (_request(), PriorReason.CATALOG_RESOLVED, "tokens/s at concurrency"),
    "an unstated quantization that only one profile can mean": (
        _request(GPT_OSS.replace("/fp4/", "/unstated/")),
        PriorReason.CATALOG_RESOLVED,
        "/fp4/",
    ),
    "other hardware names the nearest profile and the difference": (
        _request(GPT_OSS.replace("h200", "b300")),
        PriorReason.PROFILE_NOT_FOUND,
        "differing in hardware nvidia-b300 (catalog: nvidia-",
    ),
    "another model": (
        _request(GPT_OSS.replace("120b", "20b")),
        PriorReason.PROFILE_NOT_FOUND,
        "differing in model.name openai/gpt-oss-20b (catalog: openai/gpt-oss-120b)",
    ),
    "another degree": (
        _request(GPT_OSS.replace("gpus=1,tp=1", "gpus=16,tp=16")),
        PriorReason.PROFILE_NOT_FOUND,
        "parallel.tp 16",
    ),
    "targets that no point keeps": (
        _request(targets=LatencyTargets(50, 33)),
        PriorReason.NO_POINT_WITHIN_LATENCY_TARGET,
        "under workload 8192/1024 closest is concurrency 4: TTFT p95 1076 ms (p50..p99), over 50 ms",
    ),
    "a target that the role needs and nobody set": (
        _request(targets=LatencyTargets(2000, None)),
        PriorReason.NO_POINT_WITHIN_LATENCY_TARGET,
        "itlTargetMilliseconds must be set",
    ),
    "an identity that cannot be told": (
        _request(identity=infer_identity(replace(ROLE, artifact=None))),
        PriorReason.ROLE_IDENTITY_UNRESOLVED,
        "role server: model: wanted",
    ),
}


@pytest.mark.parametrize(("request_", "reason", "part"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_outcome_and_message(request_: RoleRequest, reason: PriorReason, part: str) -> None:
    prior = resolve_role(load_embedded(), request_)
    assert prior.reason is reason
    assert part in prior.message
    assert prior.message.startswith("role server: ")
    assert (prior.capacity is not None) is (reason is PriorReason.CATALOG_RESOLVED)


def test_several_quantizations_need_a_stated_one() -> None:
    catalog = load(profile_document(), profile_document(quantization="fp8"))
    prior = resolve_role(catalog, _request(QWEN.replace("/bf16/", "/unstated/")))
    assert prior.reason is PriorReason.PROFILE_NOT_FOUND
    assert "the quantization is not stated and test catalog holds bf16 and fp8 for it" in prior.message


def test_an_empty_catalog_says_so() -> None:
    prior = resolve_role(load(), _request())
    assert prior.reason is PriorReason.PROFILE_NOT_FOUND
    assert prior.message.endswith(": test catalog holds no profile")


UNITS: dict[str, tuple[DemandUnit, float]] = {
    "Server": (DemandUnit.TOTAL, 6400.0),
    "Prefill": (DemandUnit.INPUT, 5120.0),
    "Decode": (DemandUnit.OUTPUT, 1280.0),
}


@pytest.mark.parametrize(("role", "expected"), UNITS.items())
def test_each_role_counts_its_own_tokens(role: str, expected: tuple[DemandUnit, float]) -> None:
    capacity = resolve_role(load(profile_document(role=role)), _request(QWEN.replace("Server", role))).capacity
    assert capacity is not None
    assert (capacity.unit, capacity.seed_tokens_per_second) == expected
    assert capacity.curve[-1] == (8, expected[1])


def test_headroom_scales_after_the_point_is_chosen() -> None:
    full = resolve_role(_sweep(), _request(QWEN, headroom=1.0)).capacity
    half = resolve_role(_sweep(), _request(QWEN, headroom=0.5)).capacity
    assert full is not None
    assert half is not None
    assert full.concurrency == half.concurrency
    assert half.effective_tokens_per_second == full.effective_tokens_per_second / 2


def _fingerprint(catalog: LoadedCatalog, request: RoleRequest) -> str:
    capacity = resolve_role(catalog, request).capacity
    assert capacity is not None
    return capacity.fingerprint


CHANGES: dict[str, RoleRequest] = {
    "headroom": _request(headroom=0.8),
    "a TTFT target": _request(targets=LatencyTargets(1900, 33)),
    "an ITL target": _request(targets=LatencyTargets(2000, 30)),
    "the quantile": _request(targets=LatencyTargets(2000, 33, 90)),
    "the identity": _request(GPT_OSS.replace("gpus=1,tp=1", "gpus=2,tp=2")),
    "the workload": _request(observed=_observed(8.0)),
    "the mode": _request(observed=_observed(8.0), mode=PriorWorkload.OBSERVED),
}


@pytest.mark.parametrize("request_", CHANGES.values(), ids=CHANGES.keys())
def test_fingerprint_changes_with_what_the_number_was_computed_from(request_: RoleRequest) -> None:
    assert _fingerprint(load_embedded(), request_) != _fingerprint(load_embedded(), _request())


def test_fingerprint_changes_with_a_measured_number_and_not_with_a_declaration() -> None:
    one, other = load(profile_document()), load(profile_document(points=[point_document(8, 6400.1)]))
    assert _fingerprint(one, _request(QWEN)) != _fingerprint(other, _request(QWEN))
    declared = _request(Identified(parse_identity(QWEN), declared=True))
    assert _fingerprint(one, declared) == _fingerprint(one, _request(QWEN))


def test_fingerprint_is_the_same_while_the_observed_mix_drifts() -> None:
    for mode in PriorWorkload:
        prints = {
            _fingerprint(load_embedded(), _request(observed=_observed(ratio), mode=mode, previous_workload="8192/1024"))
            for ratio in (6.0, 7.5, 9.0)
        }
        assert len(prints) == 1


def test_profile_mode_reports_the_mismatch_and_changes_nothing() -> None:
    away = resolve_role(load_embedded(), _request(observed=_observed(4.0)))
    home = resolve_role(load_embedded(), _request(previous_workload="8192/1024"))
    assert away.mix is not None
    assert 0.55 < away.mix.factor < 0.7
    assert away.capacity == home.capacity
    assert home.mix is None
    assert "observed mix × 0.6" in away.message


def test_observed_mode_counts_output_equivalents_and_keeps_the_measured_point() -> None:
    request = _request(
        observed=_observed(4.0, mean_input_tokens=4096.0, mean_output_tokens=1024.0), mode=PriorWorkload.OBSERVED
    )
    prior = resolve_role(load_embedded(), request)
    capacity, mix = prior.capacity, prior.mix
    assert capacity is not None
    assert mix is not None
    assert (capacity.unit, capacity.selection) == (
        DemandUnit.OUTPUT_EQUIVALENT,
        PointSelection.LATENCY_NOT_TRANSFERABLE,
    )
    assert capacity.concurrency == 4
    # Demand of one replica at this mix fills it exactly, in either form.
    measured = resolve_role(load_embedded(), replace(request, mode=PriorWorkload.PROFILE)).capacity
    assert measured is not None
    total = measured.seed_tokens_per_second * mix.factor
    output, rho = total / 5, capacity.rho or 0.0
    assert output + rho * output * 4 == pytest.approx(capacity.seed_tokens_per_second, rel=1e-9)
    assert [c for c, _ in capacity.curve] == [4, 8, 16, 32, 64]


def test_observed_mode_at_the_median_chooses_its_own_point() -> None:
    observed = _observed(4.0, mean_input_tokens=4096.0, mean_output_tokens=1024.0)
    targets = LatencyTargets(2000, 33, quantile=50)
    capacity = resolve_role(
        load_embedded(), _request(observed=observed, mode=PriorWorkload.OBSERVED, targets=targets)
    ).capacity
    assert capacity is not None
    assert capacity.unit is DemandUnit.OUTPUT_EQUIVALENT
    assert capacity.selection in (PointSelection.BRACKETED, PointSelection.EXPLICIT_SATURATION)


def test_a_refused_conversion_leaves_the_measured_point_and_reports_the_factor() -> None:
    observed = ObservedMix(input_per_output=8.0, mean_input_tokens=8192.0, requests=10)
    prior = resolve_role(load_embedded(), _request(observed=observed, mode=PriorWorkload.OBSERVED))
    assert prior.capacity is not None
    assert prior.capacity.unit is DemandUnit.TOTAL
    assert prior.mix is not None
    assert prior.mix.refusal is MixRefusal.TOO_FEW_REQUESTS
    assert "not converted: TooFewRequests" in prior.message


def test_other_roles_stay_with_their_profile_under_observed() -> None:
    catalog = load(profile_document(role="Decode"))
    request = _request(QWEN.replace("Server", "Decode"), observed=_observed(4.0), mode=PriorWorkload.OBSERVED)
    prior = resolve_role(catalog, request)
    assert prior.capacity is not None
    assert (prior.capacity.unit, prior.mix) == (DemandUnit.OUTPUT, None)


@pytest.mark.parametrize("source", ["build/catalog.yaml", "ConfigMap team-a/priors"])
def test_a_catalog_with_a_name_takes_no_article(source: str) -> None:
    held = load_text((DATA / "h200-sweep.yaml").read_bytes(), source)
    assert isinstance(held, LoadedCatalog)
    other = _request("Server/meta-llama/Llama-4/bf16/vllm/nvidia-h200/gpus=8,tp=8")
    assert f" in {source}; nearest is " in resolve_role(held, other).message
    assert " in the embedded catalog; nearest is " in resolve_role(load_embedded(), other).message


def _two_roles(prefill: RoleRequest, decode: RoleRequest) -> list[RoleRequest]:
    return [replace(prefill, name="prefill"), replace(decode, name="decode")]


def test_the_worst_role_gives_the_reason_and_every_role_stands_in_the_message() -> None:
    requests = _two_roles(_request(), _request(GPT_OSS.replace("h200", "b300")))
    priors = resolve_scaler(load_embedded(), requests)
    assert (priors.resolved, priors.reason) == (False, PriorReason.PROFILE_NOT_FOUND)
    assert "role prefill: Server/openai" in priors.message
    assert "role decode: no profile for" in priors.message
    decode = priors.role("decode")
    assert decode is not None
    assert decode.capacity is None
    worse = resolve_scaler(
        load_embedded(), [*requests, _request(identity=infer_identity(replace(ROLE, artifact=None)))]
    )
    assert worse.reason is PriorReason.ROLE_IDENTITY_UNRESOLVED


def test_the_condition_is_true_only_when_every_role_is_resolved() -> None:
    priors = resolve_scaler(load_embedded(), _two_roles(_request(), _request()))
    assert (priors.resolved, priors.reason) == (True, PriorReason.CATALOG_RESOLVED)


FAILURES: dict[str, tuple[dict[str, str] | None, PriorReason]] = {
    "the ConfigMap is missing": (None, PriorReason.CONFIG_MAP_NOT_FOUND),
    "the ConfigMap holds no catalog": ({"catalog.yaml": "x: 1"}, PriorReason.CATALOG_INVALID),
}


@pytest.mark.parametrize(("data", "reason"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failed_catalog_is_every_roles_outcome(data: dict[str, str] | None, reason: PriorReason) -> None:
    priors = resolve_scaler(CatalogCache().config_map("team-a/priors", data), [_request()])
    assert (priors.resolved, priors.reason) == (False, reason)
    assert [prior.reason for prior in priors.roles] == [reason]
    assert "ConfigMap team-a/priors" in priors.message


def test_a_planted_secret_never_reaches_the_message_of_a_resolution() -> None:
    model = f"team/{SECRET.replace('/', '-')}"
    identity = Identified(parse_identity(GPT_OSS.replace("openai/gpt-oss-120b", model)), secrets=(model,))
    prior = resolve_role(load_embedded(), _request(identity=identity))
    assert prior.reason is PriorReason.PROFILE_NOT_FOUND
    assert model not in prior.message
    assert "[redacted]" in prior.message


def test_a_thousand_roles_against_a_thousand_profiles_look_at_few_of_them() -> None:
    profiles = [
        profile_document(
            model={"name": f"Qwen/Model-{n // 2}"},
            workload={"inputTokens": 1024, "outputTokens": 256 * (1 + n % 2)},
            points=[point_document(4, 3600.0, 720.0), point_document(8)],
        )
        for n in range(1000)
    ]
    catalog = load(*profiles)
    # Half of them have no profile and are answered with the nearest one.
    requests = [
        RoleRequest(f"r{n}", _known(QWEN.replace("Qwen3-8B", f"Model-{n}")), TARGETS, observed=_observed(4.0))
        for n in range(1000)
    ]
    priors: list[RolePrior]
    priors, calls = counted(lambda: [resolve_role(catalog, request) for request in requests])
    assert calls < 1000 * 400, "twice what was counted for a role, whatever the number of profiles"
    assert [prior.reason for prior in priors].count(PriorReason.CATALOG_RESOLVED) == 500


def test_a_decode_profile_that_counts_no_prompts_is_found_by_its_lengths() -> None:
    profiles = [
        profile_document(
            role="Decode",
            points=[point_document(8, rate, rate)],
            workload={"inputTokens": lengths[0], "outputTokens": lengths[1]},
        )
        for rate, lengths in ((800.0, (1024, 1024)), (600.0, (8192, 1024)))
    ]
    request = _request(QWEN.replace("Server", "Decode"), observed=_observed(8.0))
    capacity = resolve_role(load(*profiles), request).capacity
    assert capacity is not None
    assert (capacity.workload, capacity.seed_tokens_per_second) == ("8192/1024", 600.0)


@pytest.mark.parametrize(
    ("flags", "concurrency"),
    [
        pytest.param((), 32, id="no limit of its own"),
        pytest.param(("--max-num-seqs", "64"), 32, id="a limit beyond the sweep"),
        pytest.param(("--max-num-seqs=20",), 16, id="a limit inside the sweep"),
        pytest.param(("--max-num-seqs", "1"), None, id="a limit below the sweep"),
    ],
)
def test_a_role_is_planned_with_no_more_requests_than_its_engine_runs(
    flags: tuple[str, ...], concurrency: int | None
) -> None:
    documents = list(yaml.safe_load_all((DATA / "qwen3-8b-deployment.yaml").read_text()))
    deployment = next(document for document in documents if document["kind"] == "ModelDeployment")
    deployment["spec"]["roles"][0]["extraArgs"] = list(flags)
    (role,) = role_inputs(documents)
    prior = resolve_role(_sweep(), _request(infer_identity(role)))
    assert (prior.capacity.concurrency if prior.capacity else None) == concurrency
