"""Print what pyproject.toml asks for: `requirements.py EXTRA...`, one requirement a line, of those extras alone."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for extra in sys.argv[1:]:
    print(*project["optional-dependencies"][extra], sep="\n")
