"""`mdscaler demo`: one hour of real traffic through real HTTP, scaled by the real controller, without a cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from controller.cli.options import Output, OutputOption, choice
from controller.foundation import UsageError

FASTEST = 120.0  # beyond it an interval is shorter than what two cores need for it
# How often a demo that chose its speed itself begins anew, slower, before it takes what comes.
_MOST_RESTARTS = 2


class DemoAlgorithm(StrEnum):
    """What the demo's scaler decides by."""

    TOKEN_THROUGHPUT = "TokenThroughput"  # noqa: S105 - not a password
    PROPORTIONAL = "Proportional"
    PREDICTIVE = "Predictive"
    ADAPTIVE = "Adaptive"


class DemoRoles(StrEnum):
    """Which roles share the work."""

    SERVER = "server"
    PD = "pd"
    EPD = "epd"


def demo(
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Traffic to replay: a CSV file, plain or gzip, of requests (columns t_s, prompt_tokens, "
            "output_tokens) or of bins (t_s, requests, prompt_tokens, output_tokens). Default: one hour of Azure's "
            "chat service, 2023."
        ),
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=1.0, help="Only the first minutes of the trace.")] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            max=FASTEST,
            help="How much faster than real time. Default: ends within three minutes, slower on a busy machine.",
        ),
    ] = None,
    algorithm: Annotated[
        DemoAlgorithm,
        typer.Option(
            **choice(DemoAlgorithm, metavar="<name>"), help=f"What the scaler decides by: {', '.join(DemoAlgorithm)}."
        ),
    ] = DemoAlgorithm.TOKEN_THROUGHPUT,
    roles: Annotated[
        DemoRoles,
        typer.Option(
            case_sensitive=False,
            help="Who shares the work: one Server role; Prefill and Decode (pd); Encode, Prefill and Decode (epd).",
        ),
    ] = DemoRoles.SERVER,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn at random.")] = 1,
    kill_controller_every: Annotated[
        float | None,
        typer.Option(min=60.0, help="Kill and restart the controller every so many seconds of trace time."),
    ] = None,
    cycles: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Instead of the trace: steady traffic of its lengths while the count of each role in its turn is set "
            "to 4 and to 1 again, so many times; the scaler only watches. Shows that no request is lost.",
        ),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Run in real time, print the KUBECONFIG, and stay up after the traffic, for kubectl."
        ),
    ] = False,
    directory: Annotated[
        Path, typer.Option(help="Where the report, the controller's log, its decision records and the kubeconfig go.")
    ] = Path("out/demo"),
    report: Annotated[
        str, typer.Option(help="Name of the HTML report in the directory; empty for none.")
    ] = "report.html",
    output: OutputOption = Output.TEXT,
) -> int:
    """Replay real traffic against engine servers on loopback, scaled by the unmodified controller.

    Everything runs on this machine: a Kubernetes API server, engine servers timed by a sweep measured on an H200, a
    router, streaming clients, and the controller in a process of its own. The trace is thinned and the engines are
    slowed so that one to about five replicas are needed; the report says by how much. Exit status 1 when a request was
    lost, no decision was made, or a restart of the controller made a shrink come early. Where this machine was too slow
    for the traffic, the first line says so, and which speed to try.
    """
    # Heavy, and only this command pays for it.
    from controller.cli import demo_run  # noqa: PLC0415
    from controller.cli.demo_folder import check_report  # noqa: PLC0415
    from controller.cli.demo_plan import plan_demo  # noqa: PLC0415
    from controller.cli.demo_report import render_results, summary_table  # noqa: PLC0415
    from controller.cli.demo_speed import SpeedPlanner  # noqa: PLC0415

    if serve and speed not in (None, 1.0):
        raise UsageError("--serve runs in real time, so that kubectl shows true ages; leave out --speed")
    if report:
        check_report(directory, report)
    if serve and cycles is not None:
        raise UsageError("--serve keeps a demo up after its trace, and --cycles replays none; leave out one of them")
    if minutes is not None and cycles is not None:
        raise UsageError("--cycles replays no trace, it ends after so many cycles; leave out --minutes")
    plan = plan_demo(trace, minutes=minutes, algorithm=str(algorithm), seed=seed, roles=roles, cycles=cycles)
    if cycles is None and kill_controller_every is not None and kill_controller_every > plan.trace_seconds:
        raise UsageError(
            f"--kill-controller-every: the traffic lasts {plan.trace_seconds:.0f} s, so nothing would be killed within "
            f"it; give less than {kill_controller_every:.0f}, or more --minutes"
        )
    planner = SpeedPlanner(plan, speed=1.0 if serve else speed)
    options = demo_run.DemoOptions(
        speed=planner.speed,
        kill_every_seconds=kill_controller_every,
        serve=serve,
        directory=directory,
        live=output is Output.TEXT,
    )
    if planner.slowed:
        typer.echo(f"mdscaler: {planner.announcement}", err=True)

    unwritten: list[str] = []

    def tell(outcome: demo_run.DemoOutcome) -> None:
        doubt = outcome.doubt and f"{outcome.doubt}; {planner.advice()}"
        if doubt:
            typer.echo(f"mdscaler: {doubt}", err=True)
        problems = list(outcome.failures)
        if report:
            try:
                (directory / report).write_text(render_results(plan, options, outcome, doubt), encoding="utf-8")
            except OSError as error:
                problems.append(f"the report could not be written to {directory / report}: {error.strerror}")
                unwritten.append(report)
        if output is Output.JSON:
            typer.echo(orjson.dumps(outcome.as_json()).decode())
        else:
            typer.echo(summary_table(plan, outcome))
            if report and not unwritten:
                typer.echo(f"report: {directory / report}")
        for problem in problems:
            typer.echo(f"mdscaler: {problem}", err=True)

    for restarts_left in range(_MOST_RESTARTS, -1, -1):
        options = replace(options, speed=planner.speed, give_up_when_late=bool(restarts_left) and planner.may_slow_down)
        try:
            outcome = asyncio.run(demo_run.run_demo(plan, options, tell))
        except demo_run.FellBehind as behind:
            planner.slow_down()
            typer.echo(f"mdscaler: {behind}; beginning anew at --speed {planner.speed:.0f}", err=True)
        else:
            return 1 if outcome.failures or unwritten else 0
    raise AssertionError("the last attempt takes what comes")
