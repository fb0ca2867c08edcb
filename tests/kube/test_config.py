"""Finding the API server: every way there is, and one clear line for everything that can be wrong."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.foundation import UsageError
from controller.kube import Connection, load_connection
from controller.kube.loaders import load_config_package
from tests.kube.certificates import make_authority


def kubeconfig(**changes: Any) -> dict[str, Any]:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001"}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "other", "context": {"cluster": "c", "user": "u"}},
        ],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
    }
    return config | changes


def write(directory: Path, config: object, name: str = "config") -> Path:
    path = directory / name
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path


async def load(path: Path | None = None, context: str | None = None, **environment: str) -> Connection:
    return await load_connection(str(path) if path else None, context, environment=environment)


async def authorization(connection: Connection) -> str | None:
    return (await connection.headers()).get("Authorization")


# ---- where it is looked for ------------------------------------------------------------------------------------------


async def test_the_given_file_is_used_with_its_current_context(tmp_path: Path) -> None:
    connection = await load(write(tmp_path, kubeconfig()))
    assert connection.server == "http://127.0.0.1:8001"
    assert connection.namespace == "team"
    assert await authorization(connection) == "Bearer secret-token"
    assert connection.ssl_context is None


async def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    assert (await load(write(tmp_path, kubeconfig()), "other")).namespace == "default"


async def test_the_environment_names_several_files_and_the_first_current_context_wins(tmp_path: Path) -> None:
    first = write(
        tmp_path,
        {"contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}], "current-context": "mine"},
        "1",
    )
    second = write(tmp_path, kubeconfig(), "2")
    connection = await load(KUBECONFIG=f"{first}:{tmp_path / 'missing'}:{second}")
    assert connection.namespace == "default"
    assert await authorization(connection) == "Bearer secret-token"


async def test_in_a_pod_the_service_account_comes_before_the_home_directory(tmp_path: Path) -> None:
    directory = service_account(tmp_path, "t1\n")
    write(tmp_path, kubeconfig())
    connection = await load_connection(
        environment={"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)},
        service_account=directory,
    )
    assert connection.server == "https://[fd00::1]:443"
    assert connection.namespace == "mine"
    assert await authorization(connection) == "Bearer t1"
    assert connection.ssl_context is not None


async def test_the_home_directory_comes_last(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", kubeconfig())
    assert (await load(HOME=str(tmp_path))).namespace == "team"


def service_account(tmp_path: Path, token: str) -> Path:
    directory = tmp_path / "sa"
    directory.mkdir(exist_ok=True)
    (directory / "token").write_text(token)
    (directory / "ca.crt").write_bytes(make_authority().pem)
    (directory / "namespace").write_text("mine\n")
    return directory


# ---- what can be wrong -----------------------------------------------------------------------------------------------

WRONG: list[tuple[str, object, str]] = [
    ("an empty file", "", "is not a YAML mapping"),
    ("no YAML", "token: {secret-token: [1\n", "is not valid YAML in line 2"),
    ("a list", "- a", "is not a YAML mapping"),
    ("no current context", kubeconfig(**{"current-context": ""}), "sets no current-context; give --context"),
    ("an unknown context", kubeconfig(**{"current-context": "gone"}), "has no context 'gone'; it has: main, other"),
    ("an unknown cluster", kubeconfig(clusters=[]), "cluster 'c' of context 'main' has no server"),
    ("a cluster without a server", kubeconfig(clusters=[{"name": "c", "cluster": {}}]), "has no server"),
    ("an unknown user", kubeconfig(users=[]), "user 'u' of context 'main' is not defined"),
    ("contexts that are no list", kubeconfig(contexts={"a": 1}), "contexts must be a list"),
    ("an entry without a name", kubeconfig(users=[{"user": {}}]), "users must be a list of entries that have a name"),
    (
        "a server without a scheme",
        kubeconfig(clusters=[{"name": "c", "cluster": {"server": "api:6443"}}]),
        "must start with https:// or http://, found 'api:6443'",
    ),
    (
        "a CA file that is not there",
        kubeconfig(clusters=[{"name": "c", "cluster": {"server": "https://a", "certificate-authority": "no.crt"}}]),
        "no credentials: File does not exists",
    ),
    (
        "CA data that is no certificate",
        kubeconfig(
            clusters=[
                {
                    "name": "c",
                    "cluster": {"server": "https://a", "certificate-authority-data": base64.b64encode(b"x").decode()},
                }
            ]
        ),
        "cannot be used",
    ),
    (
        "an exec plugin that is not installed",
        kubeconfig(users=[{"name": "u", "user": {"exec": {"apiVersion": "v1", "command": "no-such-plugin"}}}]),
        "no credentials:",
    ),
    (
        "an exec entry without a command, beside a token",
        kubeconfig(users=[{"name": "u", "user": {"token": "secret-token", "exec": {"apiVersion": "v1"}}}]),
        "missing key 'command'",
    ),
    (
        "an auth provider without its settings, beside a token",
        kubeconfig(users=[{"name": "u", "user": {"token": "secret-token", "auth-provider": {"name": "oidc"}}}]),
        "no credentials:",
    ),
    (
        "a SOCKS proxy",
        kubeconfig(clusters=[{"name": "c", "cluster": {"server": "https://a", "proxy-url": "socks5://p"}}]),
        "not supported",
    ),
    (
        "impersonated groups",
        kubeconfig(users=[{"name": "u", "user": {"token": "t", "as": "a", "as-groups": ["g"]}}]),
        "as-groups and as-user-extra are not supported",
    ),
]


@pytest.mark.parametrize(("config", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
async def test_a_broken_kubeconfig_is_told_in_one_line(tmp_path: Path, config: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        await load(write(tmp_path, config))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret-token" not in str(caught.value)


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing-here does not exist"):
        await load(tmp_path / "nothing-here")
    with pytest.raises(UsageError, match="KUBECONFIG names no existing file"):
        await load(KUBECONFIG=str(tmp_path / "nothing-here"))


async def test_nothing_at_all_names_the_three_ways_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --kubeconfig FILE, set KUBECONFIG, or run inside a Pod"):
        await load(HOME=str(tmp_path))
    with pytest.raises(UsageError, match="context 'x' was given"):
        await load(None, "x", KUBERNETES_SERVICE_HOST="10.0.0.1")


async def test_an_incomplete_pod_names_its_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="automountServiceAccountToken"):
        await load_connection(
            environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            service_account=tmp_path,
        )


# ---- credentials -----------------------------------------------------------------------------------------------------


async def test_a_context_without_a_user_is_anonymous_also_over_tls(tmp_path: Path) -> None:
    config = kubeconfig(
        clusters=[{"name": "c", "cluster": {"server": "https://a", "insecure-skip-tls-verify": True}}],
        contexts=[{"name": "main", "context": {"cluster": "c"}}],
    )
    connection = await load(write(tmp_path, config))
    assert await authorization(connection) is None
    assert connection.ssl_context is not None
    assert not connection.ssl_context.check_hostname


async def test_a_relative_token_file_is_found_and_read_again_every_minute(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    config = kubeconfig(users=[{"name": "u", "user": {"tokenFile": "token"}}])
    connection = await load(write(tmp_path, config))
    clock = [0.0]
    connection._now = lambda: clock[0]
    assert await authorization(connection) == "Bearer one"
    (tmp_path / "token").write_text("two")
    clock[0] = 59.0
    assert await authorization(connection) == "Bearer one"
    clock[0] = 61.0
    assert await authorization(connection) == "Bearer two"


async def test_a_rotated_service_account_token_is_picked_up_and_a_missing_one_survived(tmp_path: Path) -> None:
    """kopf#926: projected tokens rotate at 80 % of their life."""
    directory = service_account(tmp_path, "one")
    connection = await load_connection(
        environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}, service_account=directory
    )
    clock = [0.0]
    connection._now = lambda: clock[0]
    assert await authorization(connection) == "Bearer one"
    (directory / "token").unlink()
    clock[0] = 61.0
    assert await authorization(connection) == "Bearer one"
    (directory / "token").write_text("two")
    clock[0] = 70.0
    assert await authorization(connection) == "Bearer two"


async def test_basic_credentials_and_impersonation_become_headers(tmp_path: Path) -> None:
    config = kubeconfig(users=[{"name": "u", "user": {"username": "a", "password": "b", "as": "system:admin"}}])
    headers = await (await load(write(tmp_path, config))).headers()
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"a:b").decode()
    assert headers["Impersonate-User"] == "system:admin"


def exec_plugin(tmp_path: Path, answers: list[Mapping[str, Any]]) -> dict[str, Any]:
    """A plugin that gives one answer after the other, and the last one for ever."""
    (tmp_path / "answers").write_text(json.dumps(answers))
    script = tmp_path / "plugin.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import json, pathlib
            path = pathlib.Path({str(tmp_path / "answers")!r})
            answers = json.loads(path.read_text())
            path.write_text(json.dumps(answers[1:] or answers))
            print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                               "status": answers[0]}}))
            """
        )
    )
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}}


async def test_an_exec_plugin_without_expiry_runs_again_only_after_a_401(tmp_path: Path) -> None:
    user = exec_plugin(tmp_path, [{"token": "one"}, {"token": "two"}])
    connection = await load(write(tmp_path, kubeconfig(users=[{"name": "u", "user": user}])))
    clock = [0.0]
    connection._now = lambda: clock[0]
    headers = await connection.headers()
    clock[0] = 3600.0
    assert await authorization(connection) == "Bearer one"
    clock[0] = 3700.0
    assert connection.reject(headers)
    assert await authorization(connection) == "Bearer two"


async def test_an_exec_plugin_with_expiry_runs_again_when_it_comes(tmp_path: Path) -> None:
    past = {"token": "one", "expirationTimestamp": "2020-01-01T00:00:00Z"}
    future = {"token": "two", "expirationTimestamp": "2120-01-01T00:00:00Z"}
    user = exec_plugin(tmp_path, [past, future, {"token": "three"}])
    connection = await load(write(tmp_path, kubeconfig(users=[{"name": "u", "user": user}])))
    clock = [0.0]
    connection._now = lambda: clock[0]
    assert await authorization(connection) == "Bearer two"
    clock[0] = 1000.0
    assert await authorization(connection) == "Bearer two"


async def test_a_plugin_that_never_answers_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def wait_for_somebody(self: object, *, rejected: bool) -> None:
        await asyncio.sleep(1e6)

    monkeypatch.setattr("controller.kube.config._Kubeconfig.load", wait_for_somebody)
    with pytest.raises(UsageError, match="no credentials within 60 s: does the kubeconfig's exec plugin wait"):
        await load(write(tmp_path, kubeconfig()))


@pytest.mark.parametrize(("value", "strict"), [("1", False), ("true", False), ("0", True), ("", True)])
async def test_the_strict_check_of_certificates_can_be_relaxed_from_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, value: str, strict: bool
) -> None:
    """What the message of a refused certificate tells people to do. Python sets the flag itself from 3.13 on."""
    made = ssl.create_default_context

    def as_in_3_13(*arguments: Any, **more: Any) -> ssl.SSLContext:
        context = made(*arguments, **more)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr("ssl.create_default_context", as_in_3_13)
    config = kubeconfig(clusters=[{"name": "c", "cluster": {"server": "https://a"}}])
    connection = await load(write(tmp_path, config), MDSCALER_TLS_RELAX_X509_STRICT=value)
    assert connection.ssl_context is not None
    assert bool(connection.ssl_context.verify_flags & ssl.VERIFY_X509_STRICT) is strict


# ---- weight ----------------------------------------------------------------------------------------------------------


def test_loading_the_configuration_does_not_import_the_generated_client() -> None:
    """It costs 37 MiB; and whoever imports the package afterwards must get all of it."""
    program = """
        import sys
        from controller.kube.loaders import load_config_package
        package = load_config_package()
        assert package.kube_config.KubeConfigLoader and package.incluster_config.InClusterConfigLoader
        assert not [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
        from kubernetes_asyncio.client import V1Pod
        assert V1Pod().to_dict()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_a_package_that_is_loaded_already_is_used() -> None:
    assert load_config_package() is load_config_package()
