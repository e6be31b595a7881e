"""`tapml field simulate`."""

from __future__ import annotations

import argparse
import math
from typing import Any

from rich.console import Console

from tapml.cli.field_plans import read_plan
from tapml.cli.outputs import Outputs, check_writable
from tapml.errors import InputError
from tapml.field.policies import Policy
from tapml.field.releases import NamedStep, step_name
from tapml.field.simulation.figure import page, summary, svg
from tapml.field.simulation.fleet import Behaviour, OnLine, draw_fleet
from tapml.field.simulation.run import Simulated
from tapml.field.simulation.run import simulate as run
from tapml.field.simulation.seed import seed_plan
from tapml.files import write_text
from tapml.formats import validated
from tapml.reports.console import Table

_MOST_DEVICES = 200_000_000
_DRAWN = {".svg": svg, ".html": page}


def simulate(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """A release over a fleet; exit code 1 where it is rolled back."""
    output = options.output
    if output is not None and output.suffix not in _DRAWN:
        raise InputError(f"-o {output}: give a name that ends in .svg or .html")
    check_writable(output)
    plan = read_plan(options.plan, lambda task, version: "0" * 64) if options.plan else seed_plan()
    names = [name for step in plan.steps if isinstance(step, NamedStep) for name in step.devices]
    on_line = _on_line(options, len(names))
    behaviour = Behaviour(options.failure_rate, options.slow_rate, _broken(options.broken))
    progress.print(f"drawing a fleet of {on_line.devices:,} devices")
    fleet = draw_fleet(on_line, names, options.seed)
    found = run(plan, fleet, behaviour, math.ceil(60 * options.until))
    outputs = Outputs(progress)
    outputs.report(options.json, _document(found), lambda: _show(console, found))
    if output is not None:
        outputs.write(lambda: write_text(output, _DRAWN[output.suffix](found)))
        progress.print(f"{output} draws it")
    return outputs.exit_code(1 if found.release.status == "rolled-back" else 0)


def _on_line(options: argparse.Namespace, named: int) -> OnLine:
    if not max(named, 1) <= options.devices <= _MOST_DEVICES:
        raise InputError(f"--devices {options.devices}: give {max(named, 1)} to {_MOST_DEVICES} devices")
    at_start = options.devices * 6 // 22 if options.at_start is None else options.at_start
    if not named <= at_start <= options.devices:
        raise InputError(
            f"--at-start {at_start}: give {named} (the devices that the plan names) to {options.devices} devices"
        )
    return OnLine(options.devices, at_start, options.minutes)


def _broken(text: str | None) -> Policy | None:
    if text is None:
        return None
    field, separator, value = text.partition("=")
    if not separator:
        raise InputError(f"--broken {text}: write it as FIELD=VALUE, such as gpu_vendor=intel")
    found = {"groups": [{field: {"one_of": [value]}}]}
    return validated(f"--broken {text}", Policy, found, "; give browser, gpu_vendor or gpu_architecture")


def _document(found: Simulated) -> dict[str, Any]:
    """tapml.field-simulation/1."""
    steps = found.release.plan.steps
    return {
        "format": "tapml.field-simulation/1",
        "devices": int(found.on_line[-1]),
        "on_line_at_start": int(found.on_line[0]),
        "rolled_back": found.release.status == "rolled-back",
        "reason": found.release.reason,
        "steps": [{"step": step_name(steps[one.step]), "second": one.second} for one in found.begun],
        "on_line": found.on_line.tolist(),
        "covered": found.covered.tolist(),
        "covered_of_start": found.covered_of_start.tolist(),
    }


def _show(console: Console, found: Simulated) -> None:
    steps = found.release.plan.steps
    numbers = ("minute", "on line", "covered", "of those on line at the start")
    table = Table(*numbers, "step", right=numbers)
    for minute in range((len(found.covered) - 1) // 60 + 1):
        second = 60 * minute
        begun = [one for one in found.begun if one.second <= second]
        over = found.release.status == "rolled-back" and found.release.since <= 1000 * second
        table.add_row(
            str(minute), f"{found.on_line[second]:,}", f"{found.covered[second]:,}",
            f"{found.covered_of_start[second]:,}", "rolled back" if over else step_name(steps[begun[-1].step]),
        )  # fmt: skip
    console.print(table)
    console.print(summary(found))
