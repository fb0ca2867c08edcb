"""One row of any tool in neutral units, before it is judged.

Importers fill a `Candidate` with what the tool wrote (milliseconds, tokens per second of the whole replica) and leave
out what it did not; `judge` applies every sanity law and turns it into a `Measurement`, or raises Refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from catalog.findings import DATE
from catalog.identity import Identity, IdentityError, Quantization, Role, check_model
from catalog.importers import laws
from catalog.importers.options import ColdTail, ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.rules import Refused, Rule
from catalog.point_validation import load_axis_problem
from catalog.quantiles import Quantiles
from catalog.quantization import quantizations_of_repository
from catalog.schema import Point, PointFlag, Source, Workload
from controller.foundation import describe

# Microseconds and thousandths of a token per second: below any repeatability, and short in a catalog.
_DIGITS: Final = 3
# Realised lengths this close to the nominal ones are called by the nominal ones (InferenceX asks for 0.8…1.0 of the
# nominal length and gets 0.9).
_NOMINAL_TOLERANCE: Final = 0.15


class Candidate(msgspec.Struct, kw_only=True):
    """Latency statistics in ms by quantile in percent. `identity` is complete where the row says everything, and a
    refusal where it names none; that is raised only after the laws have passed."""

    identity: Identity | PartialIdentity | Refused
    source: Source
    engine_version: str | None = None
    concurrency: float | None = None
    total: float | None = None
    output: float | None = None
    input: float | None = None
    # Mean lengths that requests had, and the lengths that were asked for.
    input_tokens: float | None = None
    output_tokens: float | None = None
    nominal: tuple[int, int] | None = None
    ttft: Quantiles = ()
    itl: Quantiles = ()
    tpot: Quantiles = ()
    mean_ttft: float | None = None
    mean_itl: float | None = None
    mean_tpot: float | None = None
    mean_e2el: float | None = None
    # Requests that completed, that failed, and that were sent.
    completed: float | None = None
    failed: float | None = None
    planned: float | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A judged row: one point of one identity under one workload."""

    identity: Identity
    workload: Workload
    # False where only realised lengths are known, so that points of one sweep differ by a few tokens.
    nominal: bool
    point: Point
    source: Source
    engine_version: str | None


def judge(row: Candidate, options: ImportOptions) -> Measurement:
    """The measurement of a row. Raises Refused by the first rule that it breaks, in the order of `Rule`."""
    role = options.identity.role if options.identity is not None else Role.SERVER
    if role is Role.PREFILL:
        # An answer of one token has no time per token; tools write zeros there.
        row.itl = row.tpot = ()
        row.mean_itl = row.mean_tpot = None
    laws.check_completion(row.completed, row.failed, row.planned)
    total, output = laws.check_throughput(row.total, row.output, row.input)
    if row.input_tokens is None or row.output_tokens is None:
        raise Refused(Rule.MISSING_VALUE, "neither lengths nor token totals are recorded")
    laws.check_lengths(row.input_tokens, row.output_tokens)
    laws.check_token_ratio(total, output, row.input_tokens, row.output_tokens)
    for name, measured, mean in (
        ("TTFT", row.ttft, row.mean_ttft),
        ("ITL", row.itl, row.mean_itl),
        ("TPOT", row.tpot, row.mean_tpot),
    ):
        laws.check_quantiles(name, measured, mean)
    if role is not Role.DECODE:
        laws.check_tail("TTFT", row.ttft)
    if role is not Role.PREFILL:
        laws.check_tail("ITL or TPOT", row.tpot or row.itl)
    concurrency = laws.check_concurrency(row.concurrency or options.concurrency)
    laws.check_little(
        output,
        row.output_tokens,
        concurrency,
        mean_e2el=row.mean_e2el,
        mean_ttft=row.mean_ttft,
        per_token=row.mean_tpot if row.mean_tpot is not None else row.mean_itl,
        requests=row.completed,
    )
    laws.check_end_to_end(row.output_tokens, row.mean_e2el, row.mean_ttft, row.mean_tpot, row.mean_itl)
    flags: list[PointFlag] = []
    if laws.has_cold_tail(row.ttft):
        if options.cold_tail is ColdTail.REFUSE:
            largest = row.ttft[-1]
            raise Refused(
                Rule.COLD_TAIL, f"p{largest[0]:g} TTFT is {largest[1]:.0f} ms, median {row.ttft[0][1]:.0f} ms"
            )
        flags.append(PointFlag.COLD_TAIL)
    if laws.itl_is_chunked(row.itl, row.tpot):
        flags.append(PointFlag.CHUNKED_ITL)
    workload, nominal = _workload(
        row.input_tokens, row.output_tokens, row.nominal, options.input_tokens, options.output_tokens
    )
    if isinstance(row.identity, Refused):
        raise row.identity
    identity = row.identity.complete(options) if isinstance(row.identity, PartialIdentity) else row.identity
    if options.identity is not None and identity is not options.identity:
        PartialIdentity.of(identity).check_against(options.identity)
    if identity.quantization is None:
        raise Refused(Rule.IDENTITY_MISSING, "the quantization is not stated: give it in --identity")
    _check_names(identity.model, identity.quantization, row.source.date)
    point = Point(
        concurrency=concurrency,
        total_tokens_per_second=round(total, _DIGITS),
        output_tokens_per_second=round(output, _DIGITS),
        ttft=_rounded(row.ttft),
        itl=_rounded(row.itl),
        tpot=_rounded(row.tpot),
        requests=None if row.completed is None else int(row.completed),
        flags=tuple(sorted(flags)),
    )
    if role is not Role.DECODE and point.tokens_per_second(Role.PREFILL) <= 0:
        raise Refused(Rule.TOKEN_SUM, f"total {total:.6g} tokens/s hold no input beside {output:.6g} of output")
    incoherent = load_axis_problem(point, workload)
    if incoherent is not None:
        raise Refused(Rule.LITTLES_LAW, incoherent)
    return Measurement(
        identity=identity,
        workload=workload,
        nominal=nominal,
        point=point,
        source=row.source,
        engine_version=row.engine_version or options.engine_version,
    )


@lru_cache(maxsize=1024)
def _check_names(model: str, quantization: Quantization, date: str | None) -> None:
    """What a catalog would not take, and a repository whose name says another quantization than the identity, which no
    role would ever ask for. Cached: the rows of a file name one or two models and days."""
    try:
        check_model(model)
    except IdentityError as error:
        raise Refused(Rule.UNKNOWN_MODEL, str(error)) from None
    named = quantizations_of_repository(model)
    if len(named) == 1 and named[0] not in (quantization, Quantization.BF16, Quantization.FP16):
        raise Refused(
            Rule.IDENTITY_CONTRADICTED, f"the name of {model} says {named[0].value}, the identity {quantization.value}"
        )
    if date is not None and not DATE.fullmatch(date):
        raise Refused(Rule.MALFORMED, f"the date {describe(date)} does not start with a day such as 2026-01-21")


def _rounded(measured: Quantiles) -> Quantiles:
    return tuple([(quantile, round(milliseconds, _DIGITS)) for quantile, milliseconds in measured])


@lru_cache(maxsize=1024)
def _workload(
    input_tokens: float,
    output_tokens: float,
    nominal_lengths: tuple[int, int] | None,
    stated_input: int | None,
    stated_output: int | None,
) -> tuple[Workload, bool]:
    """The workload, and whether its lengths are the nominal ones. Cached: a file asks for two or three."""
    means = (input_tokens, output_tokens)
    lengths = nominal_lengths
    if stated_input is not None and stated_output is not None:
        lengths = (stated_input, stated_output)
        for name, mean, wanted in zip(("input", "output"), means, lengths, strict=True):
            if abs(mean / wanted - 1) > _NOMINAL_TOLERANCE:
                raise Refused(Rule.LENGTH_MISMATCH, f"mean {name} length is {mean:.0f}, stated {wanted}")
    if lengths is not None and any(
        abs(mean / wanted - 1) > _NOMINAL_TOLERANCE for mean, wanted in zip(means, lengths, strict=True)
    ):
        lengths = None
    nominal = lengths is not None
    if lengths is None:
        lengths = (max(1, round(means[0])), max(1, round(means[1])))
    # A mean that rounds to the whole number adds nothing.
    exact = all(abs(mean - whole) < 0.5 for mean, whole in zip(means, lengths, strict=True))
    return (
        Workload(
            input_tokens=lengths[0],
            output_tokens=lengths[1],
            mean_input_tokens=None if exact else round(means[0], 1),
            mean_output_tokens=None if exact else round(means[1], 1),
        ),
        nominal,
    )
