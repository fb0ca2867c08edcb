"""The engines this room can read. A new engine: one module beside this one, and its profile here."""

from controller.engines.profile import Profile
from controller.engines.profiles.sglang import SGLANG
from controller.engines.profiles.vllm import VLLM

PROFILES: tuple[Profile, ...] = (VLLM, SGLANG)

__all__ = ["PROFILES", "SGLANG", "VLLM"]
