"""GPU time of whole models in Chromium, by @tapml/runtime, ONNX Runtime Web and TensorFlow.js in one run
(`make bench-whole-models`).

Downloads the last two once, to build/web_runtimes/packages, makes the models and pages, and measures (`measure.py`,
whose options it takes). `MODELS`: some of them, `HALF=1`: in float16, `SMALL=1`: of sizes that a GPU in software takes,
which says nothing of speed. Exit code 1 where a result is not ONNX Runtime's on the CPU.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.whole_models import measure
from benchmarks.whole_models.models import WHOLE
from benchmarks.whole_models.site import make_site

if __name__ == "__main__":
    names = (os.environ.get("MODELS") or " ".join(model.name for model in WHOLE)).split()
    half, small = (bool(os.environ.get(name)) for name in ("HALF", "SMALL"))
    sys.exit(measure.main(make_site(measure.SITE, Path("build/web_runtimes/packages"), names, half=half, small=small)))
