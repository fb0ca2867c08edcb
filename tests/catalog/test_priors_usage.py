"""`mdscaler priors` used wrongly, and the manifests that people have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.foundation import UsageError
from tests.catalog.builders import DATA
from tests.catalog.command import run as _run
from tests.catalog.official import GPT_OSS, SWEEP, official
from tests.catalog.tools import IDENTITY

USAGE: dict[str, tuple[tuple[object, ...], str]] = {
    "an unknown format": (("import", "--from", "jmeter", SWEEP), "unknown format; one of inferencex"),
    "half of the lengths": (("import", "--from", "vllm", SWEEP, "--input-tokens", 8), "belong together"),
    "half of the traffic's lengths": (("resolve", "--identity", GPT_OSS, "--input-tokens", 8), "belong together"),
    "an identity that is none": (("resolve", "--identity", "x"), "--identity: 'x' is not an identity"),
    "an identity without its degrees": (
        ("resolve", "--identity", GPT_OSS.rpartition("/")[0], "--ttft", 1, "--itl", 1),
        "does not say the degrees: end it with /gpus=1,tp=1",
    ),
    "no latencies": (("resolve", "--identity", GPT_OSS), "--ttft and --itl: give the latency that role server"),
    "one latency of two": (("resolve", "--identity", GPT_OSS, "--ttft", 9), "--itl: give the latency"),
    "another mix than was measured, without one": (
        ("resolve", "--identity", GPT_OSS, "--ttft", 9, "--itl", 9, "--workload", "observed"),
        "--workload Observed needs the mix of the traffic: give --input-tokens and --output-tokens",
    ),
    "cache hits without traffic": (
        ("resolve", "--identity", GPT_OSS, "--ttft", 9, "--itl", 9, "--hit-ratio", 0.5),
        "--hit-ratio needs the mix of the traffic",
    ),
    "nothing to resolve": (("resolve",), "either --identity or --deployment"),
    "two things to resolve": (("resolve", "--identity", GPT_OSS, "--deployment", SWEEP), "either --identity or"),
    "a deployment file without one": (
        ("resolve", "--deployment", SWEEP),
        "h200-sweep.yaml: the file must hold exactly one ModelDeployment, found 0",
    ),
    "a missing catalog": (("show", DATA / "absent.yaml"), "No such file"),
    "a manifest for a catalog": (
        ("show", DATA / "qwen3-8b-deployment.yaml"),
        "is no catalog: this is a Kubernetes object (ModelDeployment); a catalog has the kind ModelDeploymentScaler",
    ),
    "a result for a catalog": (
        ("merge", *official("20667906037")),
        "is no catalog: this is a file of InferenceX: make a catalog of it with mdscaler priors import --from inferencex",
    ),
    "a folder for a catalog": (
        ("show", DATA),
        f"data/priors: it is a folder; give the files in it, such as {DATA}/*.yaml",
    ),
    "two files that are no catalogs": (
        ("merge", DATA / "absent.yaml", SWEEP, DATA / "gone.yaml"),
        "absent.yaml: No such file or directory; ",
    ),
    "a model table that is none": (
        ("import", "--from", "inferencex", SWEEP, "--model", "dsr1"),
        "write SHORT=owner/name",
    ),
    "nothing to retire": (("retire", SWEEP, "--reason", "x"), "either --identity or --digest"),
    "a day that is none": (
        ("import", "--from", "vllm", SWEEP, "--date", "2026-13-45"),
        "--date 2026-13-45: write a day",
    ),
    "a text of two lines": (("import", "--from", "vllm", SWEEP, "--run", "a\nb"), "--run takes one line"),
    "a tombstone without a reason": (("retire", SWEEP, "--reason", " ", "--identity", IDENTITY), "--reason is empty"),
    "a profile that is not there": (("retire", SWEEP, "--reason", "x", "--identity", GPT_OSS), "no such profile"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE.keys())
def test_wrong_use_is_one_clear_line(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _run(*arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def _manifest(tmp_path: Path, change: Callable[[list[Any]], Any]) -> Path:
    documents = list(yaml.safe_load_all((DATA / "qwen3-8b-deployment.yaml").read_text()))
    path = tmp_path / "deployment.yaml"
    changed = change(documents)
    path.write_text(changed if isinstance(changed, str) else yaml.safe_dump_all(changed))
    return path


def _node(**labels: str) -> dict[str, Any]:
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": keys}}


def _unnamed(documents: list[Any], *nodes: dict[str, Any]) -> list[Any]:
    """An InstanceType whose group an administrator named, and which nobody has filled in."""
    documents[2]["spec"]["acceleratorGroup"] = "bench"
    documents[2].pop("status", None)
    return [*documents, *nodes]


MANIFESTS: dict[str, tuple[Callable[[list[Any]], Any], int, str]] = {
    "the List that kubectl writes": (lambda d: [{"kind": "List", "items": d}], 0, "17135.159 tokens/s"),
    "a part that is repeated by an alias": (lambda d: [*d, {"kind": "Other", "a": d[1], "b": d[1]}], 0, "17135.159"),
    "an integer beyond any register": (lambda d: [d[0] | {"x": 10**40}, *d[1:]], 0, "17135.159"),
    "nodes where the pool does not say its hardware": (
        lambda d: _unnamed(d, _node(nvidia_com__gpu_product="NVIDIA-H200")),
        0,
        "/nvidia-h200/",
    ),
    "a node of the pool that names no accelerator": (
        lambda d: _unnamed(d, _node(nvidia_com__gpu_product="NVIDIA-H200"), _node()),
        1,
        "no label that names an accelerator",
    ),
    "nodes of the pool beside others": (
        lambda d: _unnamed(d, _node(nvidia_com__gpu_product="NVIDIA-H200", acceleratable_feature_gpustack_ai__bench="true"), _node()),
        0,
        "/nvidia-h200/",
    ),
    "no node": (_unnamed, 1, "of which no node is known"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "status", "part"), MANIFESTS.values(), ids=MANIFESTS.keys())
def test_resolve_reads_the_manifests_that_people_have(
    change: Callable[[list[Any]], Any], status: int, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _manifest(tmp_path, change)
    assert _run("resolve", "--deployment", path, "--catalog", SWEEP, "--ttft", 2000, "--itl", 33) == status
    assert part in capsys.readouterr().out


HOSTILE_MANIFESTS = {
    "an exponential alias": "a: &a [1, 2]\n" + "".join(f"k{i}: &{'abcdefghijklmnopqrstuvwxyz'[i + 1]} [{', '.join(['*' + 'abcdefghijklmnopqrstuvwxyz'[i]] * 9)}]\n" for i in range(20)),
    "an alias to itself": "a: &a [*a]\n",
    "a merge key": "a: &a {b: c}\nd: {<<: *a}\n",
    "no end of brackets": "[" * 100_000,
    "UTF-16": "a: b".encode("utf-16").decode("latin-1"),
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE_MANIFESTS.values(), ids=HOSTILE_MANIFESTS.keys())
def test_a_hostile_manifest_is_one_clear_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"deployment\.yaml: (line|byte) "):
        _run("resolve", "--deployment", path, "--ttft", 2000, "--itl", 33)


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_secret_of_a_deployment_is_printed(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def planted(documents: list[Any]) -> list[Any]:
        role = documents[0]["spec"]["roles"][0]
        role["env"] = [{"name": "HF_TOKEN", "value": "hunter2-secret"}, {"name": "MODEL", "value": "Qwen/Qwen3-8B"}]
        role["extraArgs"] = ["--quantization", "hunter2-secret"]
        return documents

    path = _manifest(tmp_path, planted)
    arguments = ("--catalog", SWEEP, "--ttft", 2000, "--itl", 33, "--output", output)
    assert _run("resolve", "--deployment", path, *arguments) == 1
    out = capsys.readouterr()
    for secret in ("hunter2", "Qwen/Qwen3-8B"):
        assert secret not in out.out + out.err
