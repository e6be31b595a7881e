"""What the operators of ONNX become (`make bench-transforms`): of each, the first node test that tapml takes is
lowered, and its kernels are asked which template of `compilers/native` takes them. Nothing is run.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from benchmarks.onnx_nodes.cases import Case, cases
from tapml.carving.prepare import lowered_with_documents
from tapml.compilers.choose import CHOICES, made_for
from tapml.compilers.native.compile import TEMPLATES, generated, recognised
from tapml.compilers.native.staged import of_any, staged
from tapml.errors import TapmlError
from tapml.importing import import_model
from tapml.lowering.moves import is_move
from tapml.lowering.operator import Operator

MOVED, VIEW, OTHERS = "raster", "view", "TVM"


def template(operator: Operator) -> str:
    """The name of the template that takes an operator; that of other compilers where none does."""
    found = recognised(operator)
    if found is None or generated(operator) is None:
        return OTHERS
    for one in TEMPLATES:
        if of_any((one,), found) is not None:
            return MOVED if one.__name__ == "transposed" else one.__name__
    return "staged" if staged(found, TEMPLATES) is not None else OTHERS


def made_of(case: Case, folder: Path) -> Counter[str]:
    """How many kernels of each template; views, where there are no kernels. Raises TapmlError where it is refused."""
    import onnx

    onnx.save(case.test.model, folder / "model.onnx")
    names = [value.name for value in case.test.model.graph.input]
    np.savez(folder / "inputs.npz", **{n: np.asarray(a) for n, a in zip(names, case.inputs, strict=False)})
    imported = import_model(str(folder / "model.onnx"), input_files=[folder / "inputs.npz"])
    lowered, _ = lowered_with_documents(imported, made_for(CHOICES["native"]))
    kernels = [MOVED if is_move(operator) else template(operator) for operator in lowered.operators]
    return Counter(kernels or [VIEW])


def main() -> int:
    warnings.simplefilter("ignore")
    of_operator: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases().values():
        of_operator[case.operator].append(case)
    found: dict[str, Counter[str]] = {}
    for operator, tests in sorted(of_operator.items()):
        for case in tests[:4]:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    found[operator] = made_of(case, Path(folder))
                break
            except TapmlError:
                continue
        print(f"{operator}: {dict(found.get(operator, {}))}", file=sys.stderr, flush=True)
    moves = sorted(name for name, kernels in found.items() if kernels.keys() <= {MOVED, VIEW})
    composite = sorted(name for name, kernels in found.items() if name not in moves and kernels.total() > 1)
    atomic = sorted(found.keys() - {*moves, *composite})
    templates = Counter(one for name in (*atomic, *composite) for one in found[name])
    every = len(found)
    print(f"{every} operators: {len(atomic)} atomic, {len(moves)} moves, {len(composite)} of several kernels")
    print(f"moves: {', '.join(moves)}")
    print(f"of several kernels: {', '.join(composite)}")
    print(f"templates of the others, by operators that have kernels of them: {dict(templates.most_common())}")
    print(f"kernels to implement, each operator by itself {every}, with one for all moves {len(atomic) + 1}: "
          f"{1 - (len(atomic) + 1) / every:.0%} less")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
