"""Tokens per second of tiny in Chromium, by @tapml/runtime and ONNX Runtime Web in one run (`make bench-generation`).

Downloads ONNX Runtime Web once, to build/web_runtimes/packages, makes the pages and both models, and measures
(`measure.py`, whose options it takes). Exit code 1 where tokens are not those of transformers. A software GPU says
nothing of speed: there it shows that all of it runs (`TOKENS=8 ROUNDS=1`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.web_generation import measure
from benchmarks.web_generation.site import make_site

if __name__ == "__main__":
    make_site(measure.SITE, Path("build/web_runtimes/packages"), int(os.environ.get("TOKENS") or 64))
    sys.exit(measure.main())
