"""Every case runs against the embedded API server and against a real control plane.

The real one is a control plane that `hack.controlplane` starts once for the session. Without its programs the real half
is skipped with a line that says what is missing; with `CI=true` it is never skipped: the programs are built, or the
cases fail. `--build-control-plane` builds them anywhere.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.api import model_deployment_crd, scaler_crd
from hack.controlplane import (
    Binaries,
    BinariesMissing,
    Certificates,
    ControlPlane,
    NotBuilt,
    build_binaries,
    find_binaries,
)
from tests.cluster.api import Api
from tests.cluster.objects import CRDS, GADGET_CRD, NAMESPACES, SERVICE_ACCOUNTS
from tests.cluster.servers import EmbeddedServer, RealServer, Server, wait_served

_numbers = itertools.count(1)
_CRDS = (GADGET_CRD, scaler_crd(), model_deployment_crd())
_NOT_RUN = "the real control plane did not run: "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--build-control-plane", action="store_true", help="build the programs of the control plane where missing"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs the real control plane and cannot have it: one line a file instead of one a case."""
    real = [item for item in items if _needs_control_plane(item)]
    if not real or _in_ci():
        return
    try:
        find_binaries()
    except BinariesMissing as missing:
        if isinstance(missing, NotBuilt) and _may_build(config):
            return
        for item in real:
            item.add_marker(pytest.mark.skip(reason=f"{_NOT_RUN}{missing}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Read from the reports, because the cases may have been collected in other processes."""
    reasons = (report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()) if report.longrepr)
    for reason in dict.fromkeys(reason.partition(_NOT_RUN)[2] for reason in reasons if _NOT_RUN in reason):
        terminalreporter.section("real control plane: NOT RUN", yellow=True)
        terminalreporter.line(reason)


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Binaries:
    """The programs of the real control plane."""
    try:
        return build_binaries(_say) if _may_build(request.config) else find_binaries()
    except BinariesMissing as missing:
        reason = f"{_NOT_RUN}{missing}"
        if _in_ci():
            pytest.fail(f"{reason} (in CI it is never skipped)", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, programs: Binaries) -> Iterator[ControlPlane]:
    """A real control plane with the CRDs of the cases; its folder is kept when a test failed."""
    cluster = ControlPlane(programs, controller_manager=programs.controller_manager is not None)
    cluster.start()
    try:
        for crd in _CRDS:
            cluster.request("POST", CRDS.path(), crd)
        for crd in _CRDS:
            wait_served(cluster, crd)
        yield cluster
    finally:
        failed = request.session.testsfailed > 0
        cluster.stop(keep=failed)
        if failed:
            _say(f"logs of the control plane: {cluster.directory}")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """What the embedded server serves with."""
    return Certificates.create(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["embedded", "real"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """The server of one case."""
    if request.param == "real":
        yield RealServer(request.getfixturevalue("control_plane"))
        return
    embedded = EmbeddedServer(request.getfixturevalue("certificates"), tmp_path)
    await embedded.start(*_CRDS)
    yield embedded
    await embedded.stop()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[Api]:
    """The administrator in a namespace of the case's own, which has its `default` ServiceAccount."""
    namespace = f"case-{next(_numbers)}"
    async with Api(server, namespace) as made:
        await make_namespace(made, namespace)
        yield made


async def make_namespace(api: Api, name: str, labels: dict[str, str] | None = None) -> None:
    """A namespace in which Pods can be made at once: the ServiceAccount controller may be slow, or missing."""
    made = await api("POST", NAMESPACES.path(), {"metadata": {"name": name, "labels": labels or {}}})
    assert made.status == 201, made.raw
    account = await api("POST", SERVICE_ACCOUNTS.path(name), {"metadata": {"name": "default"}})
    assert account.status in (201, 409), account.raw


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def _may_build(config: pytest.Config) -> bool:
    return _in_ci() or bool(config.getoption("--build-control-plane", default=False))


def _needs_control_plane(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return "real" in parameters.values() or "programs" in getattr(item, "fixturenames", ())


def _say(line: str) -> None:
    print(f"\n{line}", file=sys.__stderr__, flush=True)
