"""Laws that hold for every catalog, whatever was measured."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catalog.canonical import catalog_yaml, profile_digest
from catalog.identity import Identity, Role, parse_identity
from catalog.inference import Identified
from catalog.loading import LoadedCatalog, load_text
from catalog.merge import merge_catalogs
from catalog.operating_point import LatencyTargets
from catalog.prediction import ObservedMix
from catalog.resolution import RolePrior, RoleRequest, resolve_role
from catalog.retire import retire
from catalog.schema import Catalog
from controller.api import PriorReason, PriorWorkload
from tests.catalog.builders import catalog_document

MODELS = ("Qwen/Qwen3-8B", "openai/gpt-oss-120b")
WORKLOADS = ((1024, 1024), (8192, 1024), (1024, 8192))
# Each example reads catalogs again and again; the laws were searched with 700 examples before.
FEW = settings(max_examples=15, deadline=None)
CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64)


@st.composite
def _points(draw: st.DrawFn, lengths: tuple[int, int]) -> list[dict[str, Any]]:
    """Points that Little's law allows: latencies follow from throughput and concurrency."""
    points = []
    for concurrency in sorted(draw(st.sets(st.sampled_from(CONCURRENCIES), min_size=1, max_size=5))):
        ttft = draw(st.integers(20, 3000))
        gap = draw(st.integers(2, 60))
        output = concurrency * lengths[1] / (ttft + gap * (lengths[1] - 1)) * 1000
        total = output * (1 + lengths[0] / lengths[1])
        tail = draw(st.floats(1.0, 4.0))
        points.append(
            {
                "concurrency": concurrency,
                "totalTokensPerSecond": f"{total:.3f}",
                "outputTokensPerSecond": f"{output:.3f}",
                "ttftMilliseconds": {"p50": str(ttft), "p99": f"{ttft * tail:.3f}"},
                "itlMilliseconds": {"p50": str(gap), "p90": f"{gap * tail:.3f}", "p99": f"{gap * tail:.3f}"},
                "flags": draw(st.sampled_from([[], [], ["ColdTail"]])),
            }
        )
    return points


@st.composite
def _profile(draw: st.DrawFn, role: str = "Server") -> dict[str, Any]:
    lengths = draw(st.sampled_from(WORKLOADS))
    points = draw(_points(lengths))
    for point in points:
        if role == "Prefill":
            del point["itlMilliseconds"]
        if role == "Decode":
            del point["ttftMilliseconds"]
            point["flags"] = []
    return {
        "role": role,
        "model": {"name": draw(st.sampled_from(MODELS))},
        "quantization": draw(st.sampled_from(["bf16", "fp8"])),
        "engine": {"name": "vLLM"},
        "hardware": "nvidia-h200",
        "parallel": {"gpus": 1, "tp": 1},
        "workload": {"inputTokens": lengths[0], "outputTokens": lengths[1]},
        "points": points,
        "source": {
            "tool": "vllm bench serve",
            "image": draw(st.sampled_from(["a:1", "a:2"])),
            "run": str(draw(st.integers(1, 10**6))),
            "date": f"2026-0{draw(st.integers(1, 9))}-01",
        },
    }


def _catalogs(*, one_image: bool = False, most: int = 6) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Profiles of single runs, each run another."""

    def distinct(profiles: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for number, profile in enumerate(profiles):
            profile["source"]["run"] = str(1000 + number)
            if one_image:
                profile["source"]["image"] = "a:1"
        return profiles

    return st.lists(_profile(), min_size=1, max_size=most).map(distinct)


def _load(document: dict[str, Any], text: str | None = None) -> LoadedCatalog:
    loaded = load_text(text or json.dumps(document), "test catalog")
    assert isinstance(loaded, LoadedCatalog), loaded.message
    return loaded


def _single(profile: dict[str, Any]) -> Catalog:
    return _load(catalog_document(profile)).catalog


def _of(catalog: Catalog) -> LoadedCatalog:
    return _load({}, catalog_yaml(catalog))


def _ask(loaded: LoadedCatalog, identity: Identity, targets: LatencyTargets, **more: Any) -> RolePrior:
    return resolve_role(loaded, RoleRequest("role", Identified(identity), targets, **more))


_targets = st.builds(
    LatencyTargets,
    st.integers(50, 20_000).map(float),
    st.integers(4, 400).map(float),
    st.sampled_from([50.0, 90.0, 95.0, 99.0, 99.9, 25.0]),
)
_mixes = st.none() | st.builds(
    lambda i, o, h: ObservedMix(
        input_per_output=i / o, mean_input_tokens=i, mean_output_tokens=o, stated=True, hit_ratio=h
    ),
    st.floats(1, 20000),
    st.floats(1, 9000),
    st.floats(0, 1),
)
_modes = st.sampled_from(PriorWorkload)


@FEW
@given(_catalogs(), _targets, _mixes, _modes, st.floats(0.01, 1.0))
def test_a_capacity_is_the_seed_times_the_headroom_and_never_more(
    profiles: list[dict[str, Any]], targets: LatencyTargets, mix: Any, mode: PriorWorkload, headroom: float
) -> None:
    loaded = _of(merge_catalogs(_single(profile) for profile in profiles).catalog)
    for profile in loaded.catalog.profiles:
        prior = _ask(loaded, profile.identity, targets, observed=mix, mode=mode, headroom=headroom)
        capacity = prior.capacity
        assert (capacity is not None) == (prior.reason is PriorReason.CATALOG_RESOLVED)
        if capacity is None:
            continue
        assert capacity.seed_tokens_per_second > 0
        assert capacity.effective_tokens_per_second == capacity.seed_tokens_per_second * headroom
        assert capacity.effective_tokens_per_second <= capacity.seed_tokens_per_second
        # Nothing beyond what some replica was seen to do.
        assert capacity.seed_tokens_per_second in {rate for _, rate in capacity.curve}
        assert capacity.concurrency in {concurrency for concurrency, _ in capacity.curve}


@FEW
@given(_catalogs(most=3), _targets, st.floats(1, 5), st.floats(1, 5), _mixes)
def test_a_looser_target_never_costs_capacity_of_the_workload_that_serves(
    profiles: list[dict[str, Any]], targets: LatencyTargets, more_ttft: float, more_itl: float, mix: Any
) -> None:
    loaded = _of(merge_catalogs(_single(profile) for profile in profiles).catalog)
    ttft, itl, quantile = targets
    assert ttft is not None
    assert itl is not None
    looser = LatencyTargets(ttft * more_ttft, itl * more_itl, quantile)
    for profile in loaded.catalog.profiles:
        asked = {"previous_workload": profile.workload.label, "observed": mix}
        before = _ask(loaded, profile.identity, targets, **asked).capacity
        after = _ask(loaded, profile.identity, looser, **asked).capacity
        if before is None:
            continue
        assert after is not None
        assert after.workload == before.workload
        assert after.seed_tokens_per_second >= before.seed_tokens_per_second


@FEW
@given(_catalogs(), st.randoms(use_true_random=False), _targets, _mixes, _modes)
def test_order_and_spelling_of_a_document_change_neither_bytes_nor_answers(
    profiles: list[dict[str, Any]], random: Any, targets: LatencyTargets, mix: Any, mode: PriorWorkload
) -> None:
    first = _of(merge_catalogs(_single(profile) for profile in profiles).catalog)
    document = yaml.safe_load(catalog_yaml(first.catalog))
    random.shuffle(document["profiles"])
    for profile in document["profiles"]:
        random.shuffle(profile["points"])
        profile["parallel"] |= {"ep": 1, "dp": 1}
        profile["engine"]["name"] = "VLLM"
        for point in profile["points"]:
            # A number instead of a text, and zeros behind the point.
            point["totalTokensPerSecond"] = float(point["totalTokensPerSecond"])
            point["outputTokensPerSecond"] = f"{float(point['outputTokensPerSecond']):.6f}"
    second = _load(document, yaml.safe_dump(document, sort_keys=random.random() < 0.5))
    assert catalog_yaml(second.catalog) == catalog_yaml(first.catalog)
    assert list(map(profile_digest, second.catalog.profiles)) == list(map(profile_digest, first.catalog.profiles))
    for profile in first.catalog.profiles:
        answers = [_ask(each, profile.identity, targets, observed=mix, mode=mode) for each in (first, second)]
        assert answers[0] == answers[1]


@FEW
@given(_catalogs(one_image=True), st.integers(0, 6), st.randoms(use_true_random=False))
def test_runs_of_one_image_may_be_merged_in_any_groups(profiles: list[dict[str, Any]], cut: int, random: Any) -> None:
    singles = [_single(profile) for profile in profiles]
    at_once = catalog_yaml(merge_catalogs(singles, "x").catalog)
    random.shuffle(singles)
    left, right = merge_catalogs(singles[:cut], "x").catalog, merge_catalogs(singles[cut:], "x").catalog
    assert catalog_yaml(merge_catalogs([left, right], "x").catalog) == at_once
    assert catalog_yaml(merge_catalogs([right, left, left], "x").catalog) == at_once


@FEW
@given(_catalogs(), st.data(), st.randoms(use_true_random=False), _targets)
def test_what_was_retired_never_serves_again(
    profiles: list[dict[str, Any]], data: st.DataObject, random: Any, targets: LatencyTargets
) -> None:
    singles = [_single(profile) for profile in profiles]
    merged = merge_catalogs(singles, "x").catalog
    gone = data.draw(st.sampled_from(merged.profiles))
    after = retire(merged, (gone,), date="2026-09-02", reason="broken run")
    everything = [*singles, merged, after]
    random.shuffle(everything)
    again = merge_catalogs(everything, "x").catalog
    # Its own run, and every run that it was made from or chosen over.
    dead = {profile_digest(gone), *gone.source.digests}
    assert not any(
        profile_digest(single.profiles[0]) in dead for single in singles if single.profiles[0] in again.profiles
    )
    for profile in again.profiles:
        assert profile_digest(profile) not in dead
        assert dead.isdisjoint(profile.source.digests)
        assert profile.key != gone.key
    if not any(profile.identity.key == gone.identity.key for profile in again.profiles):
        assert _ask(_of(again), gone.identity, targets).reason is PriorReason.PROFILE_NOT_FOUND


@FEW
@given(st.sampled_from(["Prefill", "Decode"]).flatmap(lambda role: _profile(role)), _targets, _mixes, _modes)
def test_the_halves_of_a_pair_count_their_own_tokens(
    profile: dict[str, Any], targets: LatencyTargets, mix: Any, mode: PriorWorkload
) -> None:
    loaded = _load(catalog_document(profile))
    (only,) = loaded.catalog.profiles
    prior = _ask(loaded, only.identity, targets, observed=mix, mode=mode, headroom=1.0)
    assume(prior.capacity is not None)
    assert prior.capacity is not None
    point = next(p for p in only.points if p.concurrency == prior.capacity.concurrency)
    expected = point.output_tokens_per_second
    if only.role is Role.PREFILL:
        expected = point.total_tokens_per_second - point.output_tokens_per_second
    assert prior.capacity.effective_tokens_per_second == expected


@FEW
@given(_catalogs(most=4), _targets)
def test_an_unstated_quantization_is_never_guessed(profiles: list[dict[str, Any]], targets: LatencyTargets) -> None:
    loaded = _of(merge_catalogs(_single(profile) for profile in profiles).catalog)
    for model in MODELS:
        wanted = parse_identity(f"Server/{model}/unstated/vllm/nvidia-h200/gpus=1,tp=1")
        known = {p.quantization for p in loaded.catalog.profiles if p.model == model}
        found = _ask(loaded, wanted, targets).reason is PriorReason.PROFILE_NOT_FOUND
        assert found == (len(known) != 1)
