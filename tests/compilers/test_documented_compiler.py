"""The compiler that docs/architecture.md shows in full."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from tvm import relax

from tapml.carving.carve import carve
from tapml.compilers.choose import COMPILERS
from tapml.importing.assemble import assemble
from tapml.importing.inputs import RawStep

_PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_it_makes_the_kernel_that_it_knows_and_no_other(tmp_path: Path) -> None:
    (text,) = re.findall(r"```python\n(    import math.*?)    ```", _PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(textwrap.dedent(text), names)
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((5, 40), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            negative = builder.emit(relax.op.negative(x))
            sums = builder.emit(relax.op.sum(negative, axis=1))
            out = builder.emit_output(relax.Tuple([negative, sums]))
        builder.emit_func_output(out)
    values = np.arange(200, dtype=np.float32).reshape(5, 40)
    model = assemble(
        builder.finalize(),
        tensors=[],
        steps=[RawStep("counted", {"x": values}, synthetic=True)],
        expected=[[-values, -values.sum(1)]],
        outputs=["negative", "sums"],
        oracle="numpy",
        oracle_missing=None,
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "title": "test"},
    )
    suite = carve(model, tmp_path / "x.suite", name="x", compilers=(names["Negation"](), *COMPILERS))
    compilers = {kernel: suite.bundle(kernel)["compiler"]["name"] for kernel in suite.kernels}
    assert compilers == {"tir_negative": "negation", "sum": "tvm"}
    assert suite.edited_kernels == []
