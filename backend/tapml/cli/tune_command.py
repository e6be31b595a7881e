"""`tapml tune`: what kernels take on a device."""

from __future__ import annotations

import argparse

from rich.console import Console

from tapml.cli.commands import imported_by
from tapml.cli.decoder_arguments import check_files, check_model
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.runs import acquire, elsewhere, interruptible, served
from tapml.errors import InputError
from tapml.reports.progress import ProgressReport
from tapml.reports.tuned import show_tuned
from tapml.text import listed

_DEVICE = "node-dawn"


def tune_model(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 0 where something was measured; 130 where Ctrl-C ended it early, with what was measured until then."""
    check_model(options)
    check_files(options)
    check_writable(options.json)
    names = options.device or [_DEVICE]
    if len(names) > 1:
        raise InputError("give one --device: a table is of one")
    if elsewhere(names[0]) is not None:
        raise InputError(f"{names[0]} is a device of a running server: `tapml tune` takes one of this machine, or open")
    # Late: TVM takes seconds to load.
    from tapml.carving.prepare import lowered_with_documents
    from tapml.compilers.choose import CHOICES, made_for
    from tapml.tuning.timing import Timing
    from tapml.tuning.tune import Told, tune

    with ProgressReport(progress) as report:
        report.update("importing", 0, 1)
        imported = imported_by(options, report)
        # As they are where a choice is made by the table.
        lowered, _ = lowered_with_documents(imported, made_for(CHOICES["auto"]))
        operators = [(one.name, one) for one in lowered.operators]
        report.update("importing", 1, 1)
        for name in options.kernel:
            if name not in [known for known, _ in operators]:
                raise InputError(
                    f"there is no operator {name!r}: it has {listed([known for known, _ in operators], 8)}"
                )
        wanted = [pair for pair in operators if not options.kernel or pair[0] in options.kernel]

        def told(one: Told) -> None:
            report.update("timing kernels", one.done, one.total, f"{one.name}: {one.best or 'nothing to choose'}")

        with interruptible() as cancel, served(None, options, names) as server:
            device = acquire(server, names[0], report, cancel)
            if device.hello.unavailable:
                raise InputError(f"{device.name} cannot run kernels: {device.hello.unavailable}")
            timing = Timing(device, server.state.blobs, options.turns, options.hang_seconds, cancel.check)
            table = tune(wanted, timing, told, lambda: cancel.requested)
            interrupted = cancel.requested
    outputs = Outputs(progress)
    outputs.report(options.json, table.model_dump(mode="json", exclude_none=True), lambda: show_tuned(console, table))
    return outputs.exit_code(130 if interrupted else 0 if table.kernels else 1)
