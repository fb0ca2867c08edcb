"""The caches keep of a Pod's annotations what anybody reads, and nothing else."""

from __future__ import annotations

import pytest

from controller.api import POD_ANNOTATION_PREFIXES, Pod, contract
from controller.deployment import names
from controller.foundation import ObjectMeta
from controller.kube import lean

READ = sorted(
    str(value) for module in (contract, names) for name, value in vars(module).items() if name.endswith("_ANNOTATION")
)


@pytest.mark.parametrize("annotation", READ)
def test_an_annotation_that_has_a_name_here_is_kept(annotation: str) -> None:
    annotations = {annotation: "1", "kubectl.kubernetes.io/last-applied-configuration": "{…}"}
    pod = lean(annotations=POD_ANNOTATION_PREFIXES)(Pod(metadata=ObjectMeta(name="a", annotations=annotations)))
    assert pod.metadata.annotations == {annotation: "1"}
