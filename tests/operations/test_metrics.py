"""Gauges per scaler: unknown is not zero, and what is gone is gone."""

from prometheus_client import CollectorRegistry, generate_latest

from controller.operations import ModelDeploymentMetrics, ScalerMetrics

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


def _deployment_series(registry: CollectorRegistry) -> set[str]:
    text = generate_latest(registry).decode()
    names = ("mdscaler_deployment", "mdscaler_retirement_st", "mdscaler_drain", "mdscaler_pods")
    return {line.split(" ")[0] for line in text.splitlines() if line.startswith(names) and "_created{" not in line}


def _live_through_a_retirement(metrics: ModelDeploymentMetrics, deployment: str) -> None:
    for role in ("prefill", "decode"):
        metrics.role("ns", deployment, role, desired=1, ready=2, eligible=1, outdated=1)
    metrics.pods_created("ns", deployment, "decode", 2)
    metrics.retirement_state("ns", deployment, "Draining")
    metrics.drain_look("ns", deployment, "Busy")
    metrics.retirement_step("ns", deployment, "decode", "Moved", "Draining", 12.0)
    metrics.retirement_state("ns", deployment, "Deleting")
    metrics.pods_deleted("ns", deployment, "decode", 1)


def test_only_the_present_state_of_a_retirement_is_shown_and_none_when_it_is_over():
    registry = CollectorRegistry()
    metrics = ModelDeploymentMetrics(registry)
    _live_through_a_retirement(metrics, "chat")
    states = {series for series in _deployment_series(registry) if "retirement_state" in series}
    assert states == {'mdscaler_retirement_state{deployment="chat",namespace="ns",state="Deleting"}'}
    metrics.retirement_state("ns", "chat", None)
    assert not {series for series in _deployment_series(registry) if "retirement_state" in series}


def test_a_role_that_is_dropped_takes_its_gauges_along():
    registry = CollectorRegistry()
    metrics = ModelDeploymentMetrics(registry)
    _live_through_a_retirement(metrics, "chat")
    metrics.keep_roles("ns", "chat", {"decode"})
    gauges = {series for series in _deployment_series(registry) if series.startswith("mdscaler_deployment")}
    assert len(gauges) == 4
    assert all('role="decode"' in series for series in gauges)


def test_a_deployment_that_is_gone_leaves_no_series_and_its_neighbour_keeps_its_own():
    registry = CollectorRegistry()
    metrics = ModelDeploymentMetrics(registry)
    for deployment in ("chat", "code"):
        _live_through_a_retirement(metrics, deployment)
    metrics.forget("ns", "chat")
    metrics.forget("ns", "never-seen")
    series = _deployment_series(registry)
    assert series
    assert all('deployment="code"' in each for each in series)


def test_how_long_a_state_lasted_is_kept_over_all_deployments():
    registry = CollectorRegistry()
    metrics = ModelDeploymentMetrics(registry)
    _live_through_a_retirement(metrics, "chat")
    metrics.forget("ns", "chat")
    labels = {"state": "Draining", "outcome": "Moved"}
    assert registry.get_sample_value("mdscaler_retirement_phase_seconds_sum", labels) == 12.0
