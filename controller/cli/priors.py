"""`mdscaler priors …`: catalogs of capacity priors, from benchmark files to the answer for one role.

Everything is done offline on files; nothing here talks to a cluster. A file is written whole or not at all. Exit
status: 0 done; 1 nothing was imported, or no capacity was found; 2 wrong usage or an input file that is no catalog.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from catalog import (
    Catalog,
    CatalogFailure,
    Identified,
    Identity,
    IdentityError,
    LatencyTargets,
    ObservedMix,
    RoleIdentity,
    RoleRequest,
    infer_identity,
    load_embedded,
    merge_catalogs,
    parse_identity,
    resolve_scaler,
    retire,
)
from catalog.importers import FORMATS, ColdTail, ImportOptions, import_files
from catalog.importers.fields import MAX_TEXT
from controller.api import PriorWorkload, RoleKind
from controller.cli import priors_view as view
from controller.cli.catalog_files import (
    catalog_of,
    check,
    content_before,
    load,
    load_all,
    name_of,
    roles_of,
    tombstones_of,
    write,
)
from controller.cli.options import Output, OutputOption, choice
from controller.foundation import UsageError, format_time, some_of, wall_now

priors_app = typer.Typer(
    help="Catalogs of capacity priors: measure, import, merge, retire, look up.", no_args_is_help=True
)

_CatalogFiles = Annotated[
    list[Path], typer.Argument(help="Catalog files (YAML or JSON), or their ConfigMaps.", metavar="FILES...")
]
_OutFile = Annotated[Path | None, typer.Option("--out", help="Write the catalog here (YAML, or JSON for *.json).")]
_Identity = Annotated[
    str | None,
    typer.Option(
        "--identity",
        help="Parts with `/` between them: role, owner, model, quantization, engine, hardware, degrees (gpus=8,tp=8; "
        "those of 1 left out). As `priors show` prints them.",
    ),
]
# A day, and what only a typing error exceeds.
_LONGEST_TARGET, _LONGEST_TEXT = 86_400_000.0, 10_000_000.0
_TARGET_OPTIONS = {"ttftTargetMilliseconds": "--ttft", "itlTargetMilliseconds": "--itl"}
# Keys that one message names.
_FEW = 3
# Below this an import is over before a line could be read.
_PROGRESS_AFTER_SECONDS = 1.0


@priors_app.command("validate")
def validate(files: _CatalogFiles, output: OutputOption = Output.TEXT) -> int:
    """Check catalogs, also in ConfigMaps as kubectl writes them; every finding of every file is listed. Exit status 2
    when one is invalid or cannot be read."""
    results = [(path, check(path)) for path in files]
    view.say(view.validation(results, output))
    return 2 if any(isinstance(result, CatalogFailure) for _, result in results) else 0


@priors_app.command("import")
def import_command(
    files: Annotated[list[Path], typer.Argument(help="Result files of one tool.", metavar="FILES...")],
    source: Annotated[str, typer.Option("--from", help=f"Format: {', '.join(FORMATS)}.")],
    identity: _Identity = None,
    out: _OutFile = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="For files that record no concurrency.")] = None,
    input_tokens: Annotated[int | None, typer.Option(min=1, help="Nominal prompt length.")] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, help="Nominal answer length.")] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="SHORT=owner/name for models that files call otherwise; repeat.")
    ] = None,
    engine_version: Annotated[str | None, typer.Option(help="Version of the engine that was measured.")] = None,
    image: Annotated[str | None, typer.Option(help="Image that was measured.")] = None,
    run: Annotated[str | None, typer.Option(help="Name or number of the run.")] = None,
    date: Annotated[str | None, typer.Option(help="Day of the run, as 2026-01-21.")] = None,
    all_misses: Annotated[
        bool, typer.Option("--all-misses", help="The prefix cache was off, whatever the files suggest.")
    ] = False,
    cold_tail: Annotated[
        ColdTail,
        typer.Option(case_sensitive=False, help="Points whose tail shows kernels being compiled: flag or refuse them."),
    ] = ColdTail.FLAG,
    list_refusals: Annotated[bool, typer.Option("--list-refusals", help="List every refused row.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over profiles of --out that these files do not bring.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> int:
    """Import benchmark results into a catalog of their own; `priors merge` makes one of several.

    An existing --out file is written anew: its tombstones are kept and applied, and profiles that these files do not
    bring again are only written over with --replace.
    """
    if source not in FORMATS:
        raise UsageError(f"--from {source}: unknown format; one of {', '.join(FORMATS)}")
    if (input_tokens is None) != (output_tokens is None):
        raise UsageError("--input-tokens and --output-tokens belong together: give both or neither")
    options = ImportOptions(
        identity=None if identity is None else _identity(identity),
        concurrency=concurrency,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        all_misses=all_misses,
        models=_models(model or []),
        engine_version=_text("--engine-version", engine_version),
        image=_text("--image", image),
        run=_text("--run", run),
        date=_day("--date", date),
        cold_tail=cold_tail,
    )
    before = content_before(out)
    existing = catalog_of(before, out) if before is not None and out is not None else Catalog(name=name_of(out))
    progress = _Progress()
    report = import_files(
        files, source, options, name=existing.name, tombstones=existing.retired, progress=progress.files_done
    )
    progress.end()
    if out is not None and report.imported:
        if not replace:
            _refuse_loss(existing, report.catalog, out)
        write(out, report.catalog, before)
    if future := _dated_in_the_future(report.catalog):
        print(
            f"mdscaler: dated after today, and newest in every merge until then: {some_of(future, _FEW)}; check "
            "the clock of the machine that measured, or give the day with --date",
            file=sys.stderr,
        )
    view.say(view.imported(report, out if report.imported else None, output, every_refusal=list_refusals))
    return 0 if report.imported else 1


@priors_app.command("merge")
def merge(files: _CatalogFiles, out: _OutFile = None, output: OutputOption = Output.TEXT) -> int:
    """Merge catalogs: the newest clean run of one tool and image serves; tombstones of all of them apply, and of an
    existing --out file."""
    before = content_before(out)
    inputs = [loaded.catalog for loaded in load_all(files)]
    result = merge_catalogs([*inputs, *tombstones_of(before, out)])
    if out is not None:
        write(out, result.catalog, before)
    view.say(view.merged(result, out, output))
    return 0


@priors_app.command("retire")
def retire_command(
    file: Annotated[Path, typer.Argument(help="Catalog file; written in place unless --out is given.")],
    reason: Annotated[str, typer.Option(help="Why; kept in the tombstone.")],
    identity: _Identity = None,
    workload: Annotated[str | None, typer.Option(help="Only this workload, as 8192/1024.")] = None,
    digest: Annotated[str | None, typer.Option(help="The profile with this sha256: digest.")] = None,
    date: Annotated[str | None, typer.Option(help="Day of the tombstone; today when left out.")] = None,
    out: _OutFile = None,
    tombstones: Annotated[
        Path | None, typer.Option(help="Add the tombstones to this catalog and leave FILE as it is.")
    ] = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Take profiles out and keep them out: a dated tombstone stops every re-import."""
    if out is not None and tombstones is not None:
        raise UsageError("--out and --tombstones exclude each other: the first writes FILE anew, the second leaves it")
    if (identity is None) == (digest is None):
        raise UsageError("name what to retire: either --identity or --digest")
    day, why = _day("--date", date), _text("--reason", reason)
    if why is None:
        raise UsageError("--reason is empty: say why, for whoever asks next year")
    target = tombstones or out or file
    before = content_before(target)
    loaded = load(file)
    wanted = None if identity is None else _identity(identity).key
    chosen = tuple(
        profile
        for profile in loaded.catalog.profiles
        if (wanted is None or profile.identity.key == wanted)
        and (digest is None or loaded.index.digest(profile) == digest)
        and (workload is None or profile.workload.label == workload)
    )
    if not chosen:
        raise UsageError(f"{file}: no such profile; list them with mdscaler priors show {file}")
    after = retire(loaded.catalog, chosen, date=day or format_time(wall_now())[:10], reason=why)
    if tombstones is not None:
        kept = load(tombstones).catalog
        after = merge_catalogs([kept, Catalog(name=kept.name, retired=after.retired)], kept.name).catalog
    elif out is not None:
        after = merge_catalogs([after, *tombstones_of(before, out)]).catalog
    write(target, after, before)
    view.say(view.retired(chosen, target, output))
    return 0


@priors_app.command("resolve")
def resolve(
    identity: _Identity = None,
    deployment: Annotated[
        Path | None, typer.Option(help="File with a ModelDeployment, its ModelArtifact and InstanceType (or Nodes).")
    ] = None,
    catalog: Annotated[Path | None, typer.Option(help="Catalog file; the embedded one when left out.")] = None,
    ttft: Annotated[
        float | None, typer.Option(min=0.001, max=_LONGEST_TARGET, help="TTFT target in milliseconds.")
    ] = None,
    itl: Annotated[
        float | None, typer.Option(min=0.001, max=_LONGEST_TARGET, help="ITL target in milliseconds.")
    ] = None,
    quantile: Annotated[float, typer.Option(min=0.001, max=100, help="Quantile of the targets in per cent.")] = 95.0,
    headroom: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of the throughput that is planned with.")
    ] = 0.75,
    input_tokens: Annotated[
        float | None, typer.Option(min=0.1, max=_LONGEST_TEXT, help="Mean prompt length of the traffic in tokens.")
    ] = None,
    output_tokens: Annotated[
        float | None, typer.Option(min=0.1, max=_LONGEST_TEXT, help="Mean answer length of the traffic in tokens.")
    ] = None,
    hit_ratio: Annotated[float | None, typer.Option(min=0, max=1, help="Measured prefix-cache hit ratio.")] = None,
    workload: Annotated[
        PriorWorkload,
        typer.Option(
            **choice(PriorWorkload),
            help="Profile: as measured. Observed: converted to the mix of the traffic.",
        ),
    ] = PriorWorkload.PROFILE,
    output: OutputOption = Output.TEXT,
) -> int:
    """The capacity of a replica: of an identity, or of every role of a deployment. Exit status 1 where there is
    none."""
    if (identity is None) == (deployment is None):
        raise UsageError("name what to resolve: either --identity or --deployment")
    if (input_tokens is None) != (output_tokens is None):
        raise UsageError("--input-tokens and --output-tokens belong together: give both or neither")
    observed: ObservedMix | None = None
    if input_tokens is not None and output_tokens is not None:
        observed = ObservedMix(
            input_per_output=input_tokens / output_tokens,
            mean_input_tokens=input_tokens,
            mean_output_tokens=output_tokens,
            stated=True,
            hit_ratio=hit_ratio or 0.0,
        )
    elif workload is PriorWorkload.OBSERVED or hit_ratio is not None:
        what = "--hit-ratio" if hit_ratio is not None else f"--workload {PriorWorkload.OBSERVED}"
        raise UsageError(f"{what} needs the mix of the traffic: give --input-tokens and --output-tokens")
    identities: list[tuple[str, RoleIdentity]] = []
    if identity is not None:
        known = _identity(identity)
        identities.append((known.role.value.lower(), Identified(known)))
    if deployment is not None:
        roles = roles_of(deployment)
        identities += [(role.name, infer_identity(role)) for role in roles if role.kind != RoleKind.ENCODE]
    targets = LatencyTargets(ttft, itl, quantile)
    _refuse_missing_targets(identities, targets)
    requests = [
        RoleRequest(
            name=name,
            identity=found,
            targets=targets,
            headroom=headroom,
            mode=workload,
            observed=observed,
        )
        for name, found in identities
    ]
    priors = resolve_scaler(load_embedded() if catalog is None else load(catalog), requests)
    view.say(view.resolved(priors, output))
    return 0 if priors.resolved else 1


@priors_app.command("show")
def show(
    file: Annotated[Path | None, typer.Argument(help="Catalog file; the embedded one when left out.")] = None,
    identity: _Identity = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Canonical identity, workload, digest and curve of every profile."""
    loaded = load_embedded() if file is None else load(file)
    wanted = None if identity is None else _identity(identity).key
    profiles = [p for p in loaded.catalog.profiles if wanted is None or p.identity.key == wanted]
    view.say(view.shown(loaded, profiles, output))
    return 0 if profiles or wanted is None else 1


def _refuse_loss(existing: Catalog, imported: Catalog, out: Path) -> None:
    brought = {profile.key for profile in imported.profiles} | {stone.key for stone in imported.retired}
    lost = [profile.key for profile in existing.profiles if profile.key not in brought]
    if lost:
        raise UsageError(
            f"{out} has {len(lost)} profiles that these files do not bring, and would lose them: "
            f"{some_of(lost, _FEW)}; write to another file and put both together with `mdscaler priors merge`, or give "
            "--replace"
        )


def _dated_in_the_future(catalog: Catalog) -> list[str]:
    # A day ahead may be a time zone.
    limit = (dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)).isoformat()
    return [profile.key for profile in catalog.profiles if (profile.source.date or "") > limit]


def _refuse_missing_targets(identities: list[tuple[str, RoleIdentity]], targets: LatencyTargets) -> None:
    """A person at a command line forgot an option: that is not an answer of the catalog."""
    missing = {
        _TARGET_OPTIONS[field]: name
        for name, found in identities
        if isinstance(found, Identified)
        for field in targets.needed_by(found.identity.role)
    }
    if missing:
        raise UsageError(
            f"{' and '.join(sorted(missing, reverse=True))}: give the latency that role "
            f"{next(iter(missing.values()))} has to keep, in milliseconds; the operating point is chosen by it"
        )


class _Progress:
    """A line on standard error, only for a person who waits: written over on a terminal, every few seconds
    elsewhere."""

    def __init__(self) -> None:
        self._started = self._said = time.monotonic()
        self._open = False

    def files_done(self, done: int, total: int, rows: int) -> None:
        """Say how far the import is, unless it is quick."""
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self._started < _PROGRESS_AFTER_SECONDS or now - self._said < (0.1 if terminal else 5.0):
            return
        self._said = now
        self._open = terminal
        line = f"{done}/{total} files, {rows:,} rows"
        print(f"\r{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self._open:
            print(file=sys.stderr)


def _identity(text: str) -> Identity:
    try:
        return parse_identity(text)
    except IdentityError as error:
        raise UsageError(f"--identity: {error}") from None


def _text(option: str, value: str | None) -> str | None:
    """What a catalog can hold of an option; blank is none."""
    if value is not None and (len(value) > MAX_TEXT or not value.isprintable()):
        raise UsageError(f"{option} takes one line of at most {MAX_TEXT} characters")
    return value if value is not None and value.strip() else None


def _day(option: str, value: str | None) -> str | None:
    day = _text(option, value)
    try:
        return None if day is None else dt.date.fromisoformat(day).isoformat()
    except ValueError:
        raise UsageError(f"{option} {day}: write a day such as 2026-01-21") from None


def _models(pairs: list[str]) -> dict[str, str]:
    table: dict[str, str] = {}
    for pair in pairs:
        short, separator, repository = pair.partition("=")
        if not separator or not short or not repository:
            raise UsageError(f"--model {pair}: write SHORT=owner/name, such as dsr1=deepseek-ai/DeepSeek-R1-0528")
        table[short] = repository
    return table
