"""The names we filter by, against prometheus_client's own application, which is what vLLM mounts at /metrics/."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_asgi_app
from yarl import URL

from controller.engines import PROFILES, BodyReader
from controller.engines.names import Kind

READER = BodyReader()
(VLLM,) = (profile for profile in PROFILES if profile.engine == "vllm")
MODEL = {"engine": "0", "model_name": "m"}


def registry() -> CollectorRegistry:
    """Every family that we read, by its newest name, beside one that we do not."""
    held = CollectorRegistry()
    split = {"prompt_tokens_by_source": ("source", "local_compute"), "engine_sleep_state": ("sleep_state", "awake")}
    split |= {"num_requests_waiting_by_reason": ("reason", "deferred")}
    for family in VLLM.families:
        name = family.names[0]
        if name == "num_requests_kv_fetch_by_stage":
            continue  # of a decode process only
        labels = MODEL | dict([split[name]] if name in split else [])
        if family.kind is Kind.GAUGE:
            Gauge(f"vllm:{name}", "x", labels, registry=held).labels(**labels).set(1)
        elif family.kind is Kind.COUNTER:
            Counter(f"vllm:{name}", "x", labels, registry=held).labels(**labels).inc(7)
        else:
            Histogram(f"vllm:{name}", "x", labels, registry=held).labels(**labels).observe(0.1)
    Gauge("process_start_time_seconds", "x", registry=held).set(1.7e9)
    Histogram("vllm:request_prompt_tokens", "x", MODEL, registry=held).labels(**MODEL).observe(3)
    return held


async def get(app: Any, query: bytes) -> bytes:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"accept", b"text/plain;version=0.0.4")]
    await app({"type": "http", "query_string": query, "headers": headers}, receive, send)
    return b"".join(message.get("body", b"") for message in sent)


async def test_a_filtered_answer_loses_nothing_and_carries_nothing_else() -> None:
    app = make_asgi_app(registry())
    query = URL.build(query=[("name[]", name) for name in VLLM.filter_names()]).raw_query_string.encode()
    whole, filtered = await get(app, b""), await get(app, query)
    reading = READER.read(filtered)
    assert reading == READER.read(whole)
    assert [missing.field for missing in reading.missing] == ["kv_waiting_requests", "handover_requests"]
    assert reading.models == ("m",)
    assert b"vllm:request_prompt_tokens" in whole
    assert b"vllm:request_prompt_tokens" not in filtered
    assert b"_created" not in filtered
