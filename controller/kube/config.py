"""Finding the API server: kubeconfig files, exec plugins, or the ServiceAccount of the Pod that we run in.

The order is controller-runtime's: the file that is given, then `KUBECONFIG`, then in-cluster, then `~/.kube/config`.
Parsing, OIDC and GCP credentials are kubernetes-asyncio's; this module checks the structure first, because the loaders
answer a missing cluster with an assertion and a missing user with a TypeError. Exec plugins are run here
(`exec_plugin`): the loaders log what a failing plugin wrote, wait for ever for one that hangs, and leave it running.

Everything wrong here is a UsageError of one line that names the file and the way out. No message repeats a credential.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from controller.foundation import UsageError, redact
from controller.kube.connection import LOAD_TIMEOUT_SECONDS, Connection, Credentials, CredentialSource, TlsFiles
from controller.kube.exec_plugin import PluginAnswer, run_plugin
from controller.kube.loaders import load_config_package
from controller.kube.proxies import proxy_for

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# A variable, not an option: it goes for every command that connects.
RELAX_VARIABLE = "MDSCALER_TLS_RELAX_X509_STRICT"
_NO_USER = "(no user)"
_SECRET_KEYS = frozenset(
    ("token", "password", "client-key-data", "id-token", "refresh-token", "access-token", "client-secret", "value")
)
_LOADER_FAILURES = (OSError, ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError)


@dataclass(slots=True)
class _Settings:
    """What the loaders fill in: the attributes of kubernetes-asyncio's Configuration that they set."""

    host: str = ""
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    api_key: dict[str, str] = field(default_factory=dict, repr=False)
    refresh_api_key_hook: Any = None

    def credentials(self, *, relax_x509_strict: bool, extra_headers: Mapping[str, str]) -> Credentials:
        headers = dict(extra_headers)
        if token := self.api_key.get("BearerToken"):
            headers["Authorization"] = token.strip()
        tls = TlsFiles(self.ssl_ca_cert, self.cert_file, self.key_file, self.verify_ssl, relax_x509_strict)
        return Credentials(headers, tls)


async def load_connection(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    relax_x509_strict: bool = False,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection that the arguments and the environment describe; nothing is sent to the server yet.

    `relax_x509_strict`, or MDSCALER_TLS_RELAX_X509_STRICT=1 in the environment: accept certificates that RFC 5280 does
    not allow, as Python did before 3.13. Raises UsageError when no configuration is found, it cannot be read, or it
    lacks the context, cluster or user.
    """
    relax_x509_strict = relax_x509_strict or environment.get(RELAX_VARIABLE, "").lower() in ("1", "true", "yes")
    paths = _kubeconfig_paths(kubeconfig, environment)
    settings = _Settings()
    source: CredentialSource
    if paths is None:
        if context:
            raise UsageError(f"context {context!r} was given, but no kubeconfig was found; give --kubeconfig FILE")
        source = _InCluster(settings, environment, service_account, relax_x509_strict)
        namespace = _service_account_namespace(service_account)
    else:
        source, namespace = _open_kubeconfig(paths, context, settings, relax_x509_strict)
    try:
        async with asyncio.timeout(LOAD_TIMEOUT_SECONDS):
            credentials = await source.load(rejected=False)
    except TimeoutError:
        raise UsageError(
            f"no credentials within {LOAD_TIMEOUT_SECONDS:g} s: does the kubeconfig's exec plugin wait for somebody?"
        ) from None
    if not settings.host.startswith(("https://", "http://")):
        raise UsageError(f"the server address must start with https:// or http://, found {settings.host!r}")
    return Connection(
        settings.host,
        source=source,
        credentials=credentials,
        proxy=proxy_for(settings.host, environment, settings.proxy),
        server_hostname=settings.tls_server_name,
        namespace=namespace,
    )


def _kubeconfig_paths(kubeconfig: str | None, environment: Mapping[str, str]) -> list[Path] | None:
    """The files to read, None for in-cluster."""
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise UsageError(f"kubeconfig {path} does not exist or is not a file")
        return [path]
    if listed := environment.get("KUBECONFIG"):
        paths = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
        found = [path for path in paths if path.is_file()]
        if not found:
            raise UsageError(f"KUBECONFIG names no existing file: {listed}")
        return found
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return None
    home = Path(environment.get("HOME") or Path.home()) / ".kube" / "config"
    if home.is_file():
        return [home]
    raise UsageError("no Kubernetes configuration found; give --kubeconfig FILE, set KUBECONFIG, or run inside a Pod")


def _open_kubeconfig(
    paths: list[Path], context: str | None, settings: _Settings, relax_x509_strict: bool
) -> tuple[CredentialSource, str]:
    names = ", ".join(map(str, paths))
    package = load_config_package()
    for path in paths:
        _check_document(path)
    try:
        merger = package.kube_config.KubeConfigMerger(os.pathsep.join(map(str, paths)))
        chosen = context or _current_context(merger.config_files)
        _check_references(merger.config.value, chosen, names)
        user = _user_of(merger.config.value, chosen)
        loader = _loader_class(package)(
            merger.config,
            active_context=chosen,
            config_base_path=None,
            config_persister=lambda _: merger.save_changes(),
        )
    except (*_LOADER_FAILURES, package.ConfigException) as failure:
        raise UsageError(f"kubeconfig {names} cannot be used: {type(failure).__name__}") from None
    source = _Kubeconfig(loader, settings, names, user, relax_x509_strict)
    entry = _entry(merger.config.value, "contexts", chosen) or {}
    return source, str((entry.get("context") or {}).get("namespace") or "default")


def _check_document(path: Path) -> None:
    try:
        document = yaml.safe_load(path.read_bytes())
    except OSError as failure:
        raise UsageError(f"kubeconfig {path} cannot be read: {failure.strerror or failure}") from None
    except yaml.YAMLError as failure:
        # Its own message quotes the line, and that line may be the token's.
        mark = getattr(failure, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise UsageError(f"kubeconfig {path} is not valid YAML{where}") from None
    if not isinstance(document, dict):
        raise UsageError(f"kubeconfig {path} is not a YAML mapping")
    for section in ("clusters", "contexts", "users"):
        entries = document.get(section)
        if entries is not None and not (
            isinstance(entries, list) and all(isinstance(entry, dict) and "name" in entry for entry in entries)
        ):
            raise UsageError(f"kubeconfig {path}: {section} must be a list of entries that have a name")


def _current_context(files: Mapping[str, Mapping[str, Any]]) -> str:
    # kubectl: the first file that sets it wins.
    for document in files.values():
        if current := document.get("current-context"):
            return str(current)
    raise UsageError("the kubeconfig sets no current-context; give --context NAME")


def _check_references(config: dict[str, Any], context: str, names: str) -> None:
    """Everything that the context refers to exists; a context without a user gets an empty one (anonymous)."""
    entry = _entry(config, "contexts", context)
    if entry is None:
        known = ", ".join(sorted(str(_value(item)["name"]) for item in config["contexts"])) or "none"
        raise UsageError(f"kubeconfig {names} has no context {context!r}; it has: {known}")
    body = entry.get("context") or {}
    cluster = _entry(config, "clusters", body.get("cluster"))
    if cluster is None or not (cluster.get("cluster") or {}).get("server"):
        raise UsageError(f"kubeconfig {names}: cluster {body.get('cluster')!r} of context {context!r} has no server")
    if not body.get("user"):
        position = [_value(item)["name"] for item in config["contexts"]].index(context)
        patched = copy.deepcopy(entry)
        patched["context"]["user"] = _NO_USER
        config["contexts"][position] = patched
        config["users"].append({"name": _NO_USER, "user": {}})
    elif _entry(config, "users", body["user"]) is None:
        raise UsageError(f"kubeconfig {names}: user {body['user']!r} of context {context!r} is not defined")


def _user_of(config: dict[str, Any], context: str) -> dict[str, Any]:
    entry = _entry(config, "contexts", context) or {}
    user = _entry(config, "users", (entry.get("context") or {}).get("user")) or {}
    return user.get("user") or {}


def _entry(config: Mapping[str, Any], section: str, name: object) -> dict[str, Any] | None:
    for item in config[section]:
        value = _value(item)
        if value["name"] == name:
            return value
    return None


def _value(item: Any) -> dict[str, Any]:
    """The mapping inside an entry; the loader wraps merged ones to remember which file they came from."""
    value: dict[str, Any] = getattr(item, "value", item)
    return value


def _loader_class(package: Any) -> type[Any]:
    class Loader(package.kube_config.KubeConfigLoader):  # type: ignore[misc]
        """The package's, with our way of running an exec plugin."""

        plugin_answer: PluginAnswer | None = None

        async def load_from_exec_plugin(self) -> bool:
            """Called in the place of the package's own: leaves the credentials where `load_and_set` finds them."""
            if self.plugin_answer is not None and not self.plugin_answer.expired:
                return True
            self.plugin_answer = answer = await run_plugin(_plain(self._user["exec"]))
            for name in ("token", "cert_file", "key_file"):
                if name in vars(self):
                    delattr(self, name)
            if answer.token:
                self.token = f"Bearer {answer.token}"
            if answer.certificate:
                pems = {"cert": answer.certificate, "key": answer.key}
                for name in pems:
                    in_file = package.kube_config.FileOrData(
                        pems, None, data_key_name=name, base64_file_content=False, temp_file_path=self._temp_file_path
                    )
                    setattr(self, f"{name}_file", in_file.as_file())
            return True

    return Loader


def _plain(node: Any) -> dict[str, Any]:
    value = getattr(node, "value", node)
    if not isinstance(value, dict):
        raise UsageError("exec: must be a mapping")
    return value


class _Kubeconfig:
    """Credentials of one kubeconfig user: token, token file, certificates, exec plugin, OIDC, GCP, basic."""

    def __init__(self, loader: Any, settings: _Settings, names: str, user: dict[str, Any], relax: bool) -> None:
        self._loader = loader
        self._settings = settings
        self._names = names
        self._user = user
        self._relax = relax
        self._impersonation = _impersonation_headers(user)

    async def load(self, *, rejected: bool) -> Credentials:
        if rejected:
            self._loader.plugin_answer = None  # it is kept until it expires; a 401 says that it died early
        self._settings.api_key.pop("BearerToken", None)
        try:
            await self._loader.load_and_set(self._settings)
        except (UsageError, *_LOADER_FAILURES, load_config_package().ConfigException) as failure:
            # The loader names entries by their whole content.
            reason = redact(_one_line(failure), _secrets_of(self._user))[:300]
            raise UsageError(f"kubeconfig {self._names}: no credentials: {reason}") from None
        return self._settings.credentials(relax_x509_strict=self._relax, extra_headers=self._impersonation)


class _InCluster:
    """Credentials of the Pod's ServiceAccount; the token file is rotated under us and read at every load."""

    def __init__(self, settings: _Settings, environment: Mapping[str, str], directory: Path, relax: bool) -> None:
        self._settings = settings
        self._environment = environment
        self._directory = directory
        self._relax = relax

    async def load(self, *, rejected: bool) -> Credentials:
        package = load_config_package()
        try:
            package.incluster_config.InClusterConfigLoader(
                token_filename=str(self._directory / "token"),
                cert_filename=str(self._directory / "ca.crt"),
                try_refresh_token=False,
                environ=dict(self._environment),
            ).load_and_set(self._settings)
        except (*_LOADER_FAILURES, package.ConfigException) as failure:
            raise UsageError(
                f"in-cluster configuration cannot be used: {_one_line(failure)} (looked in {self._directory}; "
                "is automountServiceAccountToken off?)"
            ) from None
        return self._settings.credentials(relax_x509_strict=self._relax, extra_headers={})


def _impersonation_headers(user: Mapping[str, Any]) -> dict[str, str]:
    headers = {}
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
    if user.get("as-uid"):
        headers["Impersonate-Uid"] = str(user["as-uid"])
    if user.get("as-groups") or user.get("as-user-extra"):
        # Groups repeat a header, which a mapping cannot; silently acting with other rights would be worse.
        raise UsageError("kubeconfig: as-groups and as-user-extra are not supported; use a ServiceAccount instead")
    return headers


def _secrets_of(section: object) -> list[str]:
    """Every string that stands under a secret's name, at any depth of a user's entry."""
    if isinstance(section, dict):
        own = [str(value) for key, value in section.items() if key in _SECRET_KEYS and isinstance(value, str | int)]
        return own + [secret for value in section.values() for secret in _secrets_of(value)]
    if isinstance(section, list):
        return [secret for value in section for secret in _secrets_of(value)]
    return []


def _service_account_namespace(directory: Path) -> str:
    try:
        return (directory / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"


def _one_line(failure: BaseException) -> str:
    return " ".join((str(failure) or type(failure).__name__).split())
