"""A real engine for tests: vLLM on CPUs in an environment of its own, and a tiny model with random weights.

engine = install_engine(print)          # minutes the first time, nothing later
write_model(folder)                     # config and tokenizer; the weights are vLLM's `--load-format dummy`

python -m hack.engine install           # or from a shell
"""

from hack.engine.installation import VLLM, Engine, EngineMissing, install_engine
from hack.engine.model import write_model

__all__ = ["VLLM", "Engine", "EngineMissing", "install_engine", "write_model"]
