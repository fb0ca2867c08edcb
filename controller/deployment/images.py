"""Which image a role runs. Pure."""

from __future__ import annotations

from typing import Final

from controller.api import EngineName, ModelDeployment, Role

# The engines' own images, by version; for anything else a person names the image.
_REPOSITORIES: Final = {EngineName.VLLM: "vllm/vllm-openai", EngineName.SGLANG: "lmsysorg/sglang"}


def image_of(deployment: ModelDeployment, role: Role) -> str:
    """The role's image, else the engine's, else the engine's own for its version; empty where none can be told."""
    engine = deployment.spec.engine
    if role.image or engine.image:
        return role.image or engine.image
    if engine.known is None or not engine.version:
        return ""
    version = (
        engine.version if engine.version.startswith("v") or not engine.version[0].isdigit() else f"v{engine.version}"
    )
    return f"{_REPOSITORIES[engine.known]}:{version}"
