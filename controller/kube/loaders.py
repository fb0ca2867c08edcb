"""The kubeconfig and in-cluster loaders of kubernetes-asyncio, without the generated client around them.

Importing `kubernetes_asyncio.config` the ordinary way also imports every generated model and API class: measured +37
MiB resident and 0.3 s on this project's reference machine, against +2 MiB and 0.02 s for the loaders alone. The
loaders name two classes of that client and need neither when the caller passes the object that receives the settings.
So the package is entered with placeholders in the place of its client, which are taken out again at once: whoever
imports `kubernetes_asyncio` later gets all of it. Should a release change its layout, the ordinary import is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

_PACKAGE = "kubernetes_asyncio"


@lru_cache(maxsize=1)
def load_config_package() -> Any:
    """`kubernetes_asyncio.config`: a module with `kube_config`, `incluster_config` and `ConfigException`."""
    if _PACKAGE not in sys.modules:
        try:
            return _import_alone()
        except (ImportError, AttributeError):
            pass
    return importlib.import_module(f"{_PACKAGE}.config")


def _import_alone() -> ModuleType:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(_PACKAGE)
    package = ModuleType(_PACKAGE)
    package.__path__ = list(spec.submodule_search_locations)
    client = ModuleType(f"{_PACKAGE}.client")
    client.ApiClient = client.Configuration = object  # type: ignore[attr-defined]
    before = set(sys.modules)
    sys.modules[_PACKAGE] = package
    sys.modules[client.__name__] = client
    try:
        return importlib.import_module(f"{_PACKAGE}.config")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == _PACKAGE and name not in before]:
            del sys.modules[name]
