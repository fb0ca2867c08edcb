"""`mdscaler crd`: print the CustomResourceDefinitions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import orjson
import typer

from controller.api import MODEL_DEPLOYMENT_SCALERS, crds_as_yaml, render_crds

_ALL = "all"


class CrdFormat(StrEnum):
    """How the definitions are printed."""

    YAML = "yaml"
    JSON = "json"


def crd(
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="Kind, plural or short name; may be repeated; 'all' for every kind. "
            "Default: ModelDeploymentScaler. The others belong to the operator where there is one: "
            "install them only on a cluster without it.",
        ),
    ] = None,
    output: Annotated[
        CrdFormat, typer.Option("--output", case_sensitive=False, help="yaml: documents for kubectl; json: one List.")
    ] = (CrdFormat.YAML),
) -> None:
    """Print the CustomResourceDefinitions that this version of the controller uses."""
    asked = kind or [MODEL_DEPLOYMENT_SCALERS.kind]
    crds = render_crds(None if any(name.lower() == _ALL for name in asked) else asked)
    if output is CrdFormat.JSON:
        listed = {"apiVersion": "v1", "kind": "List", "items": crds}
        typer.echo(orjson.dumps(listed, option=orjson.OPT_INDENT_2).decode())
    else:
        typer.echo(crds_as_yaml(crds), nl=False)
