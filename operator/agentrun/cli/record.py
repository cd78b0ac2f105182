"""Verbs that read the record: transcript, result, verify, export."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click

from agentrun.cli.output import output_option, visible
from agentrun.cli.where import Where, placed
from agentrun.errors import UsageError
from agentrun.run.fold import fold_all
from agentrun.run.identity import MAIN_TASK
from agentrun.run.log import Log, blob_names, dump, load
from agentrun.run.state import State
from agentrun.run.transcript import Entry, entries
from agentrun.run.verify import Report, Verdict, verify

LOOK_AGAIN = 0.5
MARKS = {"user": ">", "assistant": "<", "thinking": "~", "call": "*", "result": "=", "run": "#"}
FORMATS = ("native", "oma-v4", "oma-v5", "journal", "elsai")
"""The first one is the one that works."""
EXIT = {Verdict.OK: 0, Verdict.FAILURE: 1, Verdict.INCONCLUSIVE: 4}


def state_of(log: Log) -> State:
    """The folded state of a record."""
    return fold_all((commit.origin, records) for commit, records in log.decoded())


@click.command()
@click.argument("name")
@click.option("--follow", is_flag=True, help="Go on until the run ends.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md"]),
    default="text",
    show_default=True,
)
@placed
async def transcript(where: Where, name: str, follow: bool, form: str) -> int:
    """Print the conversation and the tool calls."""
    shown = 0
    while True:
        log = await where.log(name)
        found = [entry for entry in entries(log) if entry.seq > shown]
        for line in _lines(found, form):
            click.echo(line)
        shown = max((entry.seq for entry in found), default=shown)
        if not follow or state_of(log).outcome is not None:
            return 0
        await asyncio.sleep(LOOK_AGAIN)


def _lines(found: Iterable[Entry], form: str) -> Iterable[str]:
    for entry in found:
        if form == "json":
            yield json.dumps(
                {
                    "seq": entry.seq,
                    "attempt": entry.attempt,
                    "who": entry.who,
                    "title": entry.title,
                    "text": entry.text,
                }
            )
        elif form == "md":
            yield f"**{entry.who}** {visible(entry.title)}\n\n{visible(entry.text)}\n"
        else:
            title = f"{visible(entry.title)} " if entry.title else ""
            yield f"{entry.seq:>5} {MARKS[entry.who]} {title}{visible(entry.text)}"


@click.command()
@click.argument("name")
@click.option("--task", default=MAIN_TASK, help="Which task.")
@placed
async def result(where: Where, name: str, task: str) -> int:
    """Print the whole result of a run."""
    if where.cluster and where.dsn is None and task == MAIN_TASK:
        async with where.objects() as objects:
            status = (await objects.get_run(name)).status
        if status is not None and status.result and not status.result.endswith("…"):
            click.echo(visible(status.result))
            return 0
    state = state_of(await where.log(name))
    found = state.tasks.get(task)
    if found is None or found.result is None:
        phase = found.phase if found else "not there"
        raise UsageError(f"task {task} has no result: it is {phase}", attempted="result", on=name)
    click.echo(visible(str(found.result)))
    return 0


@click.command("verify")
@click.argument("name")
@output_option
@placed
async def verify_command(where: Where, name: str, output: str) -> int:
    """Check a run's record, or an exported file: 0 ok, 1 failure, 4 inconclusive."""
    log = _exported(name) or await where.log(name)
    report = verify(log)
    click.echo(json.dumps(_document(report)) if output == "json" else _text(name, report))
    return EXIT[report.verdict]


def _exported(name: str) -> Log | None:
    """The record in a file of that name, if there is one."""
    path = Path(name)
    return load(path.read_bytes()) if path.is_file() else None


def _document(report: Report) -> dict[str, object]:
    return {
        "verdict": report.verdict,
        "commits": report.commits,
        "requests": report.requests,
        "results": report.results,
        "findings": [
            {"verdict": f.verdict, "seq": f.seq, "check": f.check, "message": f.message}
            for f in report.findings
        ],
    }


def _text(name: str, report: Report) -> str:
    lines = [f"{f.verdict}: commit {f.seq}: {f.check}: {f.message}" for f in report.findings]
    lines.append(
        f"{name}: {report.verdict} ({report.commits} commits, {report.requests} model requests "
        f"reproduced, {report.results} tool results)"
    )
    return "\n".join(lines)


def _write(target: Path | None, data: bytes) -> None:
    if target is None:
        sys.stdout.buffer.write(data)
    else:
        target.write_bytes(data)


@click.command()
@click.argument("name")
@click.option("--seq", type=click.IntRange(min=1), help="As it was at this commit.")
@click.option("--format", "form", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option(
    "--file", "target", type=click.Path(path_type=Path), help="Where to; stdout if absent."
)
@placed
async def export(where: Where, name: str, seq: int | None, form: str, target: Path | None) -> int:
    """Write a run's record as one file."""
    if form != FORMATS[0]:
        raise UsageError(
            f"the format {form} is not available in this release",
            attempted="export",
            on=name,
            advice=f"Use --format {FORMATS[0]}",
        )
    log = await where.log(name)
    _write(target, dump(log if seq is None else _until(log, seq)))
    return 0


def _until(log: Log, seq: int) -> Log:
    """The record up to a commit, with what it names."""
    last = log.commits[-1].seq if log.commits else 0
    if seq > last:
        raise UsageError(f"there are {last} commits, not {seq}", attempted="export", on=log.name)
    commits = tuple(commit for commit in log.commits if commit.seq <= seq)
    named = set(blob_names(commits))
    blobs = {name: data for name, data in log.blobs.items() if name in named}
    return replace(log, commits=commits, blobs=blobs)


COMMANDS = (transcript, result, verify_command, export)
