"""What is measured, as a folder and as one packed file: the models, tapml's runtime, and what runs them in node."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.web_generation.site import ORT, PAGES
from benchmarks.web_runtimes.site import PAGES as SHARED
from benchmarks.web_runtimes.site import RUNTIME, put, put_packaged
from benchmarks.whole_models.llama.models import STORED, Shape, make
from benchmarks.whole_models.llama.peer import kinds_of, write_peer
from tapml.cli.package_state import state_of_package
from tapml.compiled.files import CompiledFiles

SCRIPT = Path(__file__).with_name("measure.mjs")
PAGES_OF_PEERS = Path(__file__).parent / "pages"
_MODULES = ("tapml-runtime.js", "tapml-preparing.js", "tapml-generation.js")


def make_site(
    folder: Path, shape: Shape, names: Sequence[str], compiler: str, *, rounds: int, warm: int, tokens: int
) -> None:
    """Make all of it, but for models that this state of tapml made already. `names`: of `STORED`; `rounds`: calls that
    are measured, of prefill and decode; `warm`: milliseconds of calls before; `tokens`: that are written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        made = json.dumps([state_of_package(), dict(shape.config), shape.capacity, shape.prompt, compiler])
        note = folder / f"{name}.made"
        if not note.is_file() or note.read_text() != made:
            make(folder / f"{name}.tapml", shape, STORED[name], compiler)
            note.write_text(made)
    for name in _MODULES:
        put(folder / name, (RUNTIME.parent / name).read_bytes())
    for file in (PAGES / "passes.js", SCRIPT):
        put(folder / file.name, file.read_bytes())
    asked = {
        "models": [*names],
        "prompt": shape.prompt,
        "context": shape.context,
        "rounds": rounds,
        "warm": warm,
        "tokens": tokens,
        "capacity": shape.capacity,
        "vocabulary": shape.config["vocab_size"],
    }
    put(folder / "asked.json", json.dumps(asked).encode())
    put(folder / "package.json", b'{"type": "module"}')


def put_peers(folder: Path, shape: Shape, names: Sequence[str], packages: Path) -> None:
    """Add ONNX Runtime Web, its models and the pages to a site that `make_site` made. `packages` keeps what was
    downloaded."""
    for name in ORT:
        put_packaged(folder, name, packages)
    for page in (*PAGES_OF_PEERS.iterdir(), SHARED / "session.js"):
        put(folder / page.name, page.read_bytes())
    for name in names:
        for kind in kinds_of(name):
            write_peer(folder / f"peers/{name}-{kind}", shape, name, kind, files=False)


def facts(folder: Path) -> dict[str, Any]:
    """What was asked for, and bytes of each model's weights."""
    asked = json.loads((folder / "asked.json").read_text())
    weights = {name: sum(CompiledFiles(folder / f"{name}.tapml").model.weights.buffers) for name in asked["models"]}
    return {**asked, "weights": weights}


def pack(folder: Path, names: Sequence[str], file: Path) -> None:
    """As .tar.gz, without what only this machine reads."""

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if "operators" in Path(entry.name).parts else entry

    with tarfile.open(file, "w:gz", compresslevel=6) as packed:
        for path in sorted(folder.iterdir()):
            own = path.suffix in (".js", ".mjs", ".json", ".html") or path.name in ("ort", "peers")
            if own or (path.stem in names and path.suffix == ".tapml"):
                packed.add(path, f"{folder.name}/{path.name}", filter=kept)
