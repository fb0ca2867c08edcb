"""The roles of a demo: what each does of a request, how its engines are sized, and what the scaler is told of them.

Server roles are sized by `plant.dimension`, which also thins the trace. With `pd` and `epd` the same thinned trace is
served by roles that each do a part, and each gets engines of its own speed, so that its peak (mean of 60 s) needs
`PEAK_REPLICAS` of them:

* Prefill: only prompts; slowed until one replica computes the wanted prompt tokens a second. Its steps are kept short
  (`_PREFILL_BATCHED_TOKENS`), or a slow engine would answer in waves.
* Decode: only tokens. A replica that is being removed has 240 model seconds, so the longest answer bounds how long a
  step may last, and with it the speed of a request; the wanted rate then says how many requests at once a replica
  takes.
* Encode: a share of the prompt stands for media. It has no signal of its own: the scaler keeps it at a ratio to
  Prefill, and its engines are fast enough for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.cli.demo import DemoRoles
from controller.embedded.engine import EngineKind
from controller.embedded.world_config import WorldRole
from controller.foundation import format_quantity
from controller.plant import Dimension, RequestTrace, ServiceTime, token_rate

MAX_REPLICAS = 8
HEADROOM = 0.75
MAX_NUM_SEQS = 32  # the highest concurrency of the sweep
# A little below what a Server role is sized for: two roles have to be carried by the same two cores.
PEAK_REPLICAS = 4.5
# Of the longest answer; the drain budget of 240 s less the minute that hand-overs get first.
_LONGEST_DECODE_SECONDS = 170.0
_PREFILL_BATCHED_TOKENS = 2048
_NEED_WINDOW_SECONDS = 60.0
# Of a request's prompt, up to this many tokens are an image (as many as Qwen-VL gives one of about 670 × 670 pixels).
MEDIA_TOKENS = 576
ENCODE_RATIO = 0.5
_SIGNIFICANT_DIGITS = 4


@dataclass(frozen=True, slots=True)
class RolePlan:
    """One role. `tokens_per_second`: what one replica serves at saturation, in tokens of its own kind; `peak`: the
    replicas that the busiest minute needs with headroom; `start`: those of the first."""

    name: str
    kind: EngineKind
    service: ServiceTime
    max_num_seqs: int
    tokens_per_second: float
    peak: float
    start: float
    max_num_batched_tokens: int | None = None

    @property
    def effective_tokens_per_second(self) -> float:
        """With headroom."""
        return HEADROOM * self.tokens_per_second

    @property
    def world_role(self) -> WorldRole:
        """What the embedded world needs of it."""
        batched = {} if self.max_num_batched_tokens is None else {"max-num-batched-tokens": self.max_num_batched_tokens}
        initial = min(MAX_REPLICAS, max(1, math.ceil(self.start)))
        if self.kind is EngineKind.ENCODE:
            initial = 1
        return WorldRole(self.service, self.name, self.kind, initial, self.max_num_seqs, flags=batched)

    @property
    def running_target(self) -> float:
        """Requests that a replica holds at a good load, for an algorithm that goes by them."""
        # Prompts are computed one after the other: with 0.75 of the time busy about two are there.
        return 2.0 if self.kind is EngineKind.PREFILL else HEADROOM * self.max_num_seqs

    def demand(self, prompt_tokens: float, output_tokens: float) -> float:
        """Of these tokens, those that are its work."""
        match self.kind:
            case EngineKind.SERVER:
                return prompt_tokens + output_tokens
            case EngineKind.DECODE:
                return output_tokens
            case _:
                return prompt_tokens


def plan_roles(roles: DemoRoles, fit: Dimension, service: ServiceTime) -> tuple[RolePlan, ...]:
    """The roles for the thinned trace of `fit`; `service`: the engine at full speed."""
    if roles is DemoRoles.SERVER:
        return (
            RolePlan(
                name="server",
                kind=EngineKind.SERVER,
                service=fit.service,
                max_num_seqs=MAX_NUM_SEQS,
                tokens_per_second=fit.capacity_tokens_per_second,
                peak=fit.need_replicas_peak,
                start=fit.need_replicas_start,
            ),
        )
    prefill, decode = _prefill(fit.trace, service), _decode(fit.trace, service)
    if roles is DemoRoles.PD:
        return (prefill, decode)
    # Twice as fast as the ratio asks for: nobody sees when an encoder is the one who is late.
    encode = replace(
        prefill,
        name="encode",
        kind=EngineKind.ENCODE,
        service=prefill.service.slowed(ENCODE_RATIO / 2),
        tokens_per_second=2 * prefill.tokens_per_second / ENCODE_RATIO,
    )
    return (encode, prefill, decode)


def role_manifests(roles: tuple[RolePlan, ...]) -> dict[str, Any]:
    """`roles` and `ratios` of the scaler."""
    spec: dict[str, Any] = {
        "roles": [{"name": role.name, "minReplicas": 1, "maxReplicas": MAX_REPLICAS} for role in roles]
    }
    if any(role.kind is EngineKind.ENCODE for role in roles):
        spec["ratios"] = [
            {"numeratorRole": "encode", "denominatorRole": "prefill", "target": quantity(ENCODE_RATIO)},
        ]
    return spec


def capacities(roles: tuple[RolePlan, ...], *, effective: bool) -> Mapping[str, str]:
    """The capacity members of an algorithm, with headroom or without."""
    members = {
        EngineKind.SERVER: "targetTokensPerSecond",
        EngineKind.PREFILL: "prefillTargetTokensPerSecond",
        EngineKind.DECODE: "decodeTargetTokensPerSecond",
    }
    return {
        members[role.kind]: quantity(role.effective_tokens_per_second if effective else role.tokens_per_second)
        for role in roles
        if role.kind in members
    }


def quantity(value: float) -> str:
    """A quantity of four digits."""
    return format_quantity(float(f"{value:.{_SIGNIFICANT_DIGITS}g}"))


def _prefill(trace: RequestTrace, service: ServiceTime) -> RolePlan:
    rates = _rates(trace, prompt=True)
    wanted = float(rates.max()) / (HEADROOM * PEAK_REPLICAS)
    return RolePlan(
        name="prefill",
        kind=EngineKind.PREFILL,
        service=service.slowed(service.prefill_tokens_per_second / service.slowdown / wanted),
        max_num_seqs=MAX_NUM_SEQS,
        tokens_per_second=wanted,
        peak=PEAK_REPLICAS,
        start=float(rates[0]) / (HEADROOM * wanted),
        max_num_batched_tokens=_PREFILL_BATCHED_TOKENS,
    )


def _decode(trace: RequestTrace, service: ServiceTime) -> RolePlan:
    rates = _rates(trace, prompt=False)
    wanted = float(rates.max()) / (HEADROOM * PEAK_REPLICAS)
    longest_step = _LONGEST_DECODE_SECONDS / max(1, int(trace.output_tokens.max()))
    slots = min(MAX_NUM_SEQS, max(1, math.floor(wanted * longest_step)))
    slowdown = min(slots / wanted, longest_step) / service.decode_step_seconds(slots)
    capacity = slots / (slowdown * service.decode_step_seconds(slots))
    return RolePlan(
        name="decode",
        kind=EngineKind.DECODE,
        service=service.slowed(slowdown),
        max_num_seqs=slots,
        tokens_per_second=capacity,
        peak=float(rates.max()) / (HEADROOM * capacity),
        start=float(rates[0]) / (HEADROOM * capacity),
    )


def _rates(trace: RequestTrace, *, prompt: bool) -> NDArray[np.float64]:
    """Tokens a second of one kind, as the mean of every minute."""
    nothing = np.zeros_like(trace.prompt_tokens)
    only = replace(
        trace,
        prompt_tokens=trace.prompt_tokens if prompt else nothing,
        output_tokens=nothing if prompt else trace.output_tokens,
    )
    return token_rate(only, _NEED_WINDOW_SECONDS)
