"""Gauges per scaler: unknown is not zero, and what is gone is gone."""

from prometheus_client import CollectorRegistry, generate_latest

from controller.operations import ScalerMetrics

KNOWN = dict(raw=3, desired=2, current=1, ready=1, demand=100.0, capacity=50.0, coverage=1.0)


def _series(registry: CollectorRegistry) -> set[str]:
    text = generate_latest(registry).decode()
    return {line.split(" ")[0] for line in text.splitlines() if line.startswith("mdscaler_role")}


def test_an_unknown_value_has_no_series():
    registry = CollectorRegistry()
    metrics = ScalerMetrics(registry)
    metrics.report_role("ns", "chat", "server", **KNOWN, limited_by="none")
    metrics.report_role("ns", "chat", "server", **(KNOWN | {"raw": None, "demand": None}), limited_by="none")
    names = {series.split("{")[0] for series in _series(registry)}
    assert "mdscaler_role_desired_replicas" in names
    assert not names & {"mdscaler_role_raw_replicas", "mdscaler_role_demand_tokens_per_second"}


def test_only_the_stage_that_binds_now_is_shown():
    registry = CollectorRegistry()
    metrics = ScalerMetrics(registry)
    metrics.report_role("ns", "chat", "server", **KNOWN, limited_by="bounds")
    metrics.report_role("ns", "chat", "server", **KNOWN, limited_by="step")
    shown = [series for series in _series(registry) if "limited_by" in series]
    assert len(shown) == 1
    assert 'stage="step"' in shown[0]


def test_a_deleted_scaler_leaves_no_series_and_its_neighbour_keeps_its_own():
    registry = CollectorRegistry()
    metrics = ScalerMetrics(registry)
    for scaler in ("chat", "code"):
        metrics.report_role("ns", scaler, "server", **KNOWN, limited_by="none")
        metrics.decisions.labels("ns", scaler).inc()
        for outcome in ("committed", "overtaken", "moved", "gone", "refused", "failed"):
            metrics.report_commit("ns", scaler, outcome)
    metrics.forget("ns", "chat")
    text = generate_latest(registry).decode()
    assert 'scaler="code"' in text
    assert 'scaler="chat"' not in text
