"""tapml's runtime beside ONNX Runtime Web, transformers.js and tvmjs, with MiniLM (`make bench-runtime`).

Downloads the others once, to build/web_runtimes, makes the pages, and measures (`measure.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.web_runtimes import measure
from benchmarks.web_runtimes.site import make_site

if __name__ == "__main__":
    make_site(measure.SITE, Path("build/web_runtimes/packages"))
    sys.exit(measure.main())
