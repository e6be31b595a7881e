"""Exports, carves and validates models that it is told on standard input (`benchmarks.workers`)."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.torch_models.cases import exported
from benchmarks.workers import Worker, compilers, serve
from tapml.carving.carve import carve
from tapml.importing import import_model


class TorchModels(Worker):
    """Of exported programs, which their suites' own oracle judges."""

    def judged(self, name: str, folder: Path) -> dict[str, Any]:
        path, inputs = exported(name, folder)
        imported = import_model(str(path), input_files=[inputs])
        suite = carve(imported, folder / "case.suite", name="case", compilers=compilers(), keep_disagreeing=True)
        doubts = suite.doubts if suite.manifest["oracle"] is not None else [suite.manifest["oracle_missing"]]
        return {
            "outcome": "wrong" if doubts else "right",
            "why": "; ".join(map(str, doubts)),
            "noticed": bool(doubts),
            "kernels": len(suite.kernels),
            "calls": len(suite.tests),
            "verdicts": self.verdicts(suite),
            "built": self.built(suite),
        }


if __name__ == "__main__":
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    serve(sys.argv[1:], TorchModels)
