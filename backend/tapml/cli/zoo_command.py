"""`tapml zoo`: tiny language models of many architectures, against transformers."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.cli.runs import acquire, interruptible, served
from tapml.errors import InputError, TapmlError, ToolchainError
from tapml.reports.progress import ProgressReport

_DEVICES = ("node-dawn",)


def zoo(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Print a table of what became of each; exit code 1 where tokens or kernels are wrong."""
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise ToolchainError("tapml zoo needs transformers: pip install 'tapml[transformers]'") from error
    # Late: TVM and PyTorch take seconds to load.
    from tapml.importing.hf_model import quiet
    from tapml.zoo.code import code, compiler_of, of_this_code
    from tapml.zoo.configurations import CONFIGURATIONS
    from tapml.zoo.judge import CPU, judged
    from tapml.zoo.table import outcome, table

    names = [name for name in CONFIGURATIONS if re.search(options.only, name)]
    if not names:
        raise InputError(f"no configuration has a name like {options.only}: {', '.join(CONFIGURATIONS)}")
    if options.resume and options.records is None:
        raise InputError("--resume goes on with the file of --records: give one")
    if options.any_code and not (options.resume or options.suites):
        raise InputError("--any-code takes what --resume or --suites finds: give one of them")
    found = _records(options.records) if options.resume else {}
    wanted = [name for name in options.device or _DEVICES if name != "cpu"]
    with interruptible() as cancel, served(None, options, wanted) as server:
        with ProgressReport(progress) as report:
            devices = {name: acquire(server, name, report, cancel) for name in wanted}
        for name in names:
            before = found.get(name)
            if before is not None and not (options.any_code or of_this_code(before)):
                progress.print(f"{name}: its record is of other code")
                before = None
            elif before is not None and compiler_of(before) != options.compiler:
                progress.print(f"{name}: its record is of --compiler {compiler_of(before)}")
                before = None
            if before is not None and {CPU, *wanted} <= before.get("tokens", {CPU: 0, **devices}).keys():
                continue
            with _folder(options.suites, name) as folder, quiet():
                try:
                    record: dict[str, Any] = judged(
                        name, Path(folder), devices, server.state.blobs, before, options.any_code, options.compiler
                    )
                except TapmlError as error:
                    why = str(error).replace(folder, "").lstrip("/")
                    record = {"outcome": "refused", "why": why, "codes": [code()], "compiler": options.compiler}
            found[name] = {"name": name, **record}
            progress.print(f"{name}: {outcome(found[name])}")
            _keep(options.records, found)
    records = [found[name] for name in names]
    console.file.write(table(records) + "\n")
    return 1 if any(outcome(record) not in ("right", "refused") for record in records) else 0


def _folder(kept: Path | None, name: str) -> contextlib.AbstractContextManager[str]:
    """Where what is made of a configuration lies: for good, or for a while."""
    if kept is None:
        return tempfile.TemporaryDirectory(prefix="tapml-zoo-")
    folder = kept / re.sub(r"\W+", "-", name)
    folder.mkdir(parents=True, exist_ok=True)
    return contextlib.nullcontext(str(folder))


def _records(path: Path) -> dict[str, Any]:
    """By name. Raises InputError for a file of another kind."""
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return {record["name"]: record for record in map(json.loads, lines)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no records of tapml zoo: {error}") from error


def _keep(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path.write_text("".join(json.dumps(record) + "\n" for record in found.values()), "utf-8")
