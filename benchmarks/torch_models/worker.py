"""Exports, carves and validates what it is told on standard input, one name a line; answers with a JSON line each."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from benchmarks.onnx_nodes.worker import Worker
from benchmarks.torch_models.cases import exported
from tapml.carving.carve import carve
from tapml.errors import TapmlError
from tapml.importing import import_model
from tapml.server import Server


class TorchWorker(Worker):
    """Of exported programs, which their suites' own oracle judges."""

    def run_named(self, name: str, folder: Path) -> dict[str, Any]:
        """What became of a model: `outcome` is right, wrong, refused or traceback; `why` says more."""
        try:
            path, inputs = exported(name, folder)
            imported = import_model(str(path), input_files=[inputs])
            suite = carve(imported, folder / "case.suite", name="case", keep_disagreeing=True)
            verdicts = {device: self._verdicts(suite, device) for device in self._devices}
        except TapmlError as error:
            return {"outcome": "refused", "why": str(error).replace(str(folder), "").lstrip("/"), "kernels": 0}
        except Exception:
            return {"outcome": "traceback", "why": traceback.format_exc()[-3000:], "kernels": 0}
        doubts = suite.doubts if suite.manifest["oracle"] is not None else [suite.manifest["oracle_missing"]]
        return {
            "outcome": "wrong" if doubts else "right",
            "why": "; ".join(map(str, doubts)),
            "noticed": bool(doubts),
            "kernels": len(suite.kernels),
            "calls": len(suite.tests),
            "verdicts": verdicts,
        }


def main() -> None:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    with Server() as server:
        for name in sys.argv[1:]:
            server.state.device(name)
        worker = TorchWorker(server, sys.argv[1:])
        print("ready", flush=True)
        for line in sys.stdin:
            began = time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="tapml-torch-") as folder:
                answer = worker.run_named(line.rstrip("\n"), Path(folder))
            record = {"name": line.rstrip("\n"), "seconds": time.perf_counter() - began, **answer}
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
