"""One run as nine tools would write it.

`Run` holds what a measured replica does at a fixed concurrency and keeps its numbers coherent (Little's law,
end-to-end identity); each `write_*` function puts it down in the layout, units and spellings of one tool, as the
tools' documents and real files have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """Milliseconds and tokens/s. The mean equals the median, which is all that the laws need."""

    concurrency: int = 32
    input_tokens: int = 1024
    output_tokens: int = 256
    ttft: float = 300.0
    per_token: float = 10.0
    rounds: int = 10

    @property
    def end_to_end(self) -> float:
        return self.ttft + self.per_token * (self.output_tokens - 1)

    @property
    def requests(self) -> int:
        return self.concurrency * self.rounds

    @property
    def requests_per_second(self) -> float:
        return self.concurrency / self.end_to_end * 1000

    @property
    def output(self) -> float:
        return self.requests_per_second * self.output_tokens

    @property
    def input(self) -> float:
        return self.requests_per_second * self.input_tokens

    @property
    def total(self) -> float:
        return self.input + self.output

    @property
    def duration(self) -> float:
        return self.requests / self.requests_per_second

    def quantiles(self, value: float) -> dict[float, float]:
        return {50.0: value, 90.0: value * 1.5, 95.0: value * 1.6, 99.0: value * 2, 99.9: value * 2.5}


IDENTITY = "Server/Qwen/Qwen3-8B/bf16/vllm/nvidia-h200/gpus=1,tp=1"
Writer = Callable[[Path, Run], Path]


def _file(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def inferencex_row(run: Run, **changes: Any) -> dict[str, Any]:
    nominal = {1024: 1138, 256: 284}  # 0.9 of these is what the requests had, to a token
    row: dict[str, Any] = {
        "hw": "h200",
        "conc": run.concurrency,
        "image": "vllm/vllm-openai:v0.13.0",
        "model": "Qwen/Qwen3-8B",
        "infmax_model_prefix": "qwen3-8b",
        "framework": "vllm",
        "precision": "bf16",
        "spec_decoding": "none",
        "disagg": False,
        "is_multinode": False,
        "isl": nominal.get(run.input_tokens, run.input_tokens),
        "osl": nominal.get(run.output_tokens, run.output_tokens),
        "tp": 1,
        "ep": 1,
        "dp_attention": "false",
        "tput_per_gpu": run.total,
        "output_tput_per_gpu": run.output,
        "input_tput_per_gpu": run.input,
        "mean_e2el": run.end_to_end / 1000,
    }
    for name, value in (("ttft", run.ttft), ("tpot", run.per_token), ("itl", run.per_token)):
        row[f"mean_{name}"] = value / 1000
        row[f"median_{name}"] = value / 1000
        row |= {f"p{q:g}_{name}": v / 1000 for q, v in run.quantiles(value).items() if q not in (50, 95)}
    return row | changes


def write_inferencex(folder: Path, run: Run) -> Path:
    return _file(folder, "agg_bmk.json", [inferencex_row(run)])


def vllm_record(run: Run, **changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "date": "20260129-090826",
        "backend": "vllm",
        "model_id": "qwen3-8b",
        "num_prompts": run.requests,
        "request_rate": "inf",
        "max_concurrency": run.concurrency,
        "duration": run.duration,
        "completed": run.requests,
        "failed": 0,
        "total_input_tokens": run.requests * run.input_tokens,
        "total_output_tokens": run.requests * run.output_tokens,
        "request_throughput": run.requests_per_second,
        "output_throughput": run.output,
        "total_token_throughput": run.total,
        "max_concurrent_requests": run.concurrency * 3,
        "mean_e2el_ms": run.end_to_end,
        "median_e2el_ms": run.end_to_end,
    }
    for name, value in (("ttft", run.ttft), ("tpot", run.per_token), ("itl", run.per_token)):
        record[f"mean_{name}_ms"] = record[f"median_{name}_ms"] = value
        record |= {f"p{q:g}_{name}_ms": v for q, v in run.quantiles(value).items() if q != 50}
    return record | changes


def write_vllm(folder: Path, run: Run) -> Path:
    return _file(folder, "vllm-infqps-concurrency32.json", vllm_record(run))


def sglang_record(run: Run, **changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "backend": "sglang-oai",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": run.concurrency,
        "duration": run.duration,
        "completed": run.requests,
        "total_input_tokens": run.requests * run.input_tokens,
        "total_output_tokens": run.requests * run.output_tokens,
        "request_throughput": run.requests_per_second,
        "input_throughput": run.input,
        "output_throughput": run.output,
        "total_throughput": run.total,
        "mean_e2e_latency_ms": run.end_to_end,
        "median_e2e_latency_ms": run.end_to_end,
        "concurrency": run.concurrency * 0.97,
        "accept_length": None,
    }
    for name, value in (("ttft", run.ttft), ("tpot", run.per_token), ("itl", run.per_token)):
        record[f"mean_{name}_ms"] = record[f"median_{name}_ms"] = value
        record |= {f"p{q:g}_{name}_ms": v for q, v in run.quantiles(value).items() if q != 50}
    return record | changes


def write_sglang(folder: Path, run: Run) -> Path:
    return _file(folder, "sglang_0128_320_random.jsonl", json.dumps(sglang_record(run)) + "\n")


_GUIDELLM_KEYS = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p999"}


def guidellm_benchmark(run: Run, strategy: dict[str, Any] | None = None) -> dict[str, Any]:
    def statistics(mean: float, quantiles: dict[float, float] | None = None) -> dict[str, Any]:
        # Percentiles of a throughput are artefacts: absurd here, so that reading one of them shows.
        percentiles = dict.fromkeys(_GUIDELLM_KEYS.values(), mean * 1000)
        percentiles |= {_GUIDELLM_KEYS[q]: v for q, v in (quantiles or {}).items()}
        # The lowest percentiles, whose keys look like larger ones.
        percentiles |= {"p001": mean / 4, "p01": mean / 3, "p05": mean / 2}
        return {"successful": {"mean": mean, "median": percentiles["p50"], "percentiles": percentiles}}

    return {
        "config": {"strategy": strategy or {"type_": "concurrent", "streams": run.concurrency}},
        "metrics": {
            "request_totals": {"successful": run.requests, "errored": 0, "incomplete": 0, "total": run.requests},
            "requests_per_second": statistics(run.requests_per_second),
            "request_concurrency": statistics(run.concurrency * 0.998),
            "request_latency": statistics(run.end_to_end / 1000),
            "prompt_token_count": statistics(run.input_tokens),
            "output_token_count": statistics(run.output_tokens),
            "time_to_first_token_ms": statistics(run.ttft, run.quantiles(run.ttft)),
            "inter_token_latency_ms": statistics(run.per_token, run.quantiles(run.per_token)),
            "time_per_output_token_ms": statistics(run.end_to_end / run.output_tokens),
            "prompt_tokens_per_second": statistics(run.input),
            "output_tokens_per_second": statistics(run.output),
            "tokens_per_second": statistics(run.total),
        },
    }


def guidellm_report(*benchmarks: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"version": 2, "guidellm_version": "0.7.1"}, "benchmarks": list(benchmarks)}


def write_guidellm(folder: Path, run: Run) -> Path:
    return _file(folder, "benchmarks.json", guidellm_report(guidellm_benchmark(run)))


def _perf_statistics(unit: str, mean: float, quantiles: dict[float, float]) -> dict[str, Any]:
    return {"unit": unit, "avg": mean, "min": mean / 2, "max": mean * 9} | {
        f"p{q:g}": v for q, v in quantiles.items() if q != 99.9
    }


def aiperf_document(run: Run, **changes: Any) -> dict[str, Any]:
    latencies = {
        "time_to_first_token": run.ttft,
        "inter_token_latency": run.per_token,
        "inter_chunk_latency": run.per_token,
    }
    document: dict[str, Any] = {
        "schema_version": "1.2",
        "aiperf_version": "0.8.0",
        "start_time": "2026-07-09T10:23:29.033942",
        "request_latency": {"unit": "ms", "avg": run.end_to_end},
        "request_count": {"unit": "requests", "avg": run.requests},
        "request_throughput": {"unit": "requests/sec", "avg": run.requests_per_second},
        "output_token_throughput": {"unit": "tokens/sec", "avg": run.output},
        "total_token_throughput": {"unit": "tokens/sec", "avg": run.total},
        "input_sequence_length": {"unit": "tokens", "avg": run.input_tokens},
        "output_sequence_length": {"unit": "tokens", "avg": run.output_tokens},
        "effective_concurrency": {"unit": "requests", "avg": run.concurrency * 1.4},
        "input_config": {"endpoint": {"model_names": ["Qwen/Qwen3-8B"]}, "loadgen": {"concurrency": run.concurrency}},
        # A second tree of the same names, which must not be read.
        "warmup_metrics": {"time_to_first_token": {"unit": "ms", "avg": 1, "p50": 1, "p99": 1}},
    }
    document |= {name: _perf_statistics("ms", value, run.quantiles(value)) for name, value in latencies.items()}
    return document | changes


def write_aiperf(folder: Path, run: Run) -> Path:
    return _file(folder, "profile_export_aiperf.json", aiperf_document(run))


def write_aiperf_csv(folder: Path, run: Run) -> Path:
    rows = ["Metric,avg,min,max,sum,p50,p90,p95,p99,std"]
    for label, value in (
        ("Time to First Token (ms)", run.ttft),
        ("Inter Token Latency (ms)", run.per_token),
        ("Request Latency (ms)", run.end_to_end),
    ):
        q = run.quantiles(value)
        rows.append(f"{label},{value},{value / 2},{value * 9},,{q[50.0]},{q[90.0]},{q[95.0]},{q[99.0]},1")
    rows.append(f"Input Sequence Length (tokens),{run.input_tokens},,,,,,,,")
    rows.append(f"Output Sequence Length (tokens),{run.output_tokens},,,,,,,,")
    rows += ["", "Metric,Value", f"Benchmark Duration (sec),{run.duration}", f"Request Count,{run.requests}"]
    rows.append(f"Output Token Throughput (tokens/sec),{run.output}")
    rows.append(f"Total Input Sequence Length (tokens),{run.requests * run.input_tokens}")
    return _file(folder, "profile_export_aiperf.csv", "\n".join(rows) + "\n")


def write_genai_perf(folder: Path, run: Run) -> Path:
    document: dict[str, Any] = {
        "request_latency": {"unit": "ms", "avg": run.end_to_end},
        "request_count": {"unit": "count", "avg": run.requests},
        "request_throughput": {"unit": "requests/sec", "avg": run.requests_per_second},
        "output_token_throughput": {"unit": "tokens/sec", "avg": run.output},
        "input_sequence_length": {"unit": "tokens", "avg": run.input_tokens},
        "output_sequence_length": {"unit": "tokens", "avg": run.output_tokens},
        "time_to_first_token": _perf_statistics("ms", run.ttft, run.quantiles(run.ttft)),
        "inter_token_latency": _perf_statistics("ms", run.per_token, run.quantiles(run.per_token)),
        "input_config": {"model": ["qwen"], "perf_analyzer": {"stimulus": {"concurrency": run.concurrency}}},
    }
    return _file(folder, "profile_export_genai_perf.json", document)


def inference_perf_stage(run: Run, load: dict[str, Any] | None = None) -> dict[str, Any]:
    def seconds(value: float) -> dict[str, float]:
        return {"mean": value / 1000, "min": 0.0, "max": value} | {
            ("median" if q == 50 else f"p{q:g}"): v / 1000 for q, v in run.quantiles(value).items()
        }

    return {
        "load_summary": load or {"count": run.requests, "concurrency_level": run.concurrency},
        "successes": {
            "count": run.requests,
            "latency": {
                "request_latency": seconds(run.end_to_end),
                "time_per_output_token": seconds(run.per_token),
                "inter_token_latency": seconds(run.per_token),
                "time_to_first_token": seconds(run.ttft),
            },
            "throughput": {
                "input_tokens_per_sec": run.input,
                "output_tokens_per_sec": run.output,
                "total_tokens_per_sec": run.total,
                "requests_per_sec": run.requests_per_second,
            },
            "prompt_len": {"mean": run.input_tokens},
            "output_len": {"mean": run.output_tokens},
        },
        "failures": {"count": 0},
    }


def write_inference_perf(folder: Path, run: Run) -> Path:
    return _file(folder, "stage_3_lifecycle_metrics.json", inference_perf_stage(run))


def llm_d_report(run: Run, replicas: int = 2, **standardized: Any) -> dict[str, Any]:
    def seconds(value: float) -> dict[str, Any]:
        spelt = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p99p9"}
        # P25 in capitals is a converter's bug.
        return {"units": "s", "mean": value / 1000, "P25": value / 1100} | {
            spelt[q]: v / 1000 for q, v in run.quantiles(value).items()
        }

    engine = {
        "kind": "inference_engine",
        "tool": "vllm",
        "role": "aggregate",
        "replicas": replicas,
        "model": {"name": "Qwen/Qwen3-8B", "quantization": "bf16"},
        "accelerator": {"model": "NVIDIA-H200", "count": 1, "parallelism": {"tp": 1, "dp": 1, "pp": 1, "ep": 1}},
        **standardized,
    }
    rates = {"input": run.input, "output": run.output, "total": run.total}
    return {
        "version": "0.2",
        "run": {"uid": "38b1", "time": {"start": "2026-02-05T18:00:42Z"}},
        "scenario": {
            "stack": [{"standardized": engine, "native": {"args": {}}}],
            "load": {"standardized": {"concurrency": run.concurrency * replicas}},
        },
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": {
                        "total": run.requests,
                        "failures": 0,
                        "input_length": {"units": "count", "mean": run.input_tokens},
                        "output_length": {"units": "count", "mean": run.output_tokens},
                    },
                    "latency": {
                        "time_to_first_token": seconds(run.ttft),
                        "time_per_output_token": seconds(run.per_token),
                        "request_latency": seconds(run.end_to_end),
                    },
                    "throughput": {
                        f"{name}_token_rate": {"units": "tokens/s", "mean": rate * replicas}
                        for name, rate in rates.items()
                    },
                }
            }
        },
    }


def write_llm_d(folder: Path, run: Run) -> Path:
    return _file(folder, "benchmark_report.yaml", llm_d_report(run))


WRITERS: dict[str, tuple[str, Writer]] = {
    "InferenceX": ("inferencex", write_inferencex),
    "vLLM": ("vllm", write_vllm),
    "SGLang's client": ("sglang", write_sglang),
    "guidellm": ("guidellm", write_guidellm),
    "AIPerf JSON": ("aiperf", write_aiperf),
    "AIPerf CSV with a concurrency that the person gives": ("aiperf", write_aiperf_csv),
    "GenAI-Perf": ("genai-perf", write_genai_perf),
    "inference-perf": ("inference-perf", write_inference_perf),
    "llm-d with two replicas": ("llm-d", write_llm_d),
    "benchmark-runner": ("benchmark-runner", write_guidellm),
}
