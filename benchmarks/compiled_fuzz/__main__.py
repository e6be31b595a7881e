"""100,000 mutated compiled models (`make bench-fuzz-compiled`): Python and pages say the same of each, in bounded time,
and none that is accepted touches what it must not at the corners of its sizes.

    python -m benchmarks.compiled_fuzz --first 5000 --documents 1000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from benchmarks.compiled_fuzz.check import Pages, check
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.files import document_of
from tapml.suite import Suite


def documents(folder: Path) -> dict[str, str]:
    """Models by hand, and small real ones as they are built: of fixed sizes, of a symbol, of a suite that is given."""
    from carving.test_carved_sizes import at
    from compiled_models import appended, beside, chained, generating, growing, looped
    from helpers import small_model

    found: dict[str, Any] = {"chained": chained(), "looped": _with_optional(looped()), "appended": appended()}
    found |= {"generating": generating(), "growing": growing(), "halves": _with_halves(appended()), "beside": beside()}
    for name, model in (("small", small_model()), ("rows", at((3, 6)))):
        suite = carve(model, folder / f"{name}.suite", name=name)
        found[name] = document_of(build(suite, folder / f"{name}.tapml").model)
    return {name: _small(document) for name, document in found.items()}


def _with_optional(document: Any) -> Any:
    """With the fields of instructions and ports that may be left out, for these to be changed, too."""
    main = document["functions"]["main"]
    main["code"][4]["otherwise"] = "there are not so many"
    main["inputs"][1]["range"] = [["sub", 0, "n"], ["max", 9, ["sub", "n", 1]]]
    return document


def _with_halves(document: Any) -> Any:
    """With its weights in 16 bits each."""
    document["weights"]["shards"][0] |= {"bytes": 32, "stored": "float16"}
    return document


def _small(document: Any) -> str:
    """Without WGSL, which no verifier reads."""
    return json.dumps({**document, "wgsl": [""] * len(document["wgsl"])})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first document (default 0)")
    parser.add_argument("--suite", type=Path, action="append", default=[], help="build this one, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tapml-fuzz-") as name:
        folder = Path(name)
        good = documents(folder)
        for path in options.suite:
            built = build(Suite(path), folder / f"{path.name}.tapml")
            good[path.name] = _small(document_of(built.model))
        began = time.perf_counter()
        with Pages() as pages:
            found = check(good, pages, options.first, options.documents)
    print(f"{found.documents} documents of {', '.join(sorted(good))}, in {time.perf_counter() - began:.0f} s")
    refused = f"{found.refused_form} for their form, {found.refused_proof} unproven"
    print(f"refused {refused} ({found.sentences} of these otherwise said)")
    print(f"accepted {found.accepted}: {found.simulated} simulated in {found.runs} runs, {found.too_large} too large")
    print(f"at most {found.python_seconds:.2f} s in Python, {found.page_seconds:.2f} s in a page")
    for failure in found.failures[:50]:
        print(failure[:1000])
    print(f"failures: {len(found.failures)}")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
