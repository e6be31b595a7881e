"""A test as a Python script against tapml's library, with its tensors and WGSL in a safetensors file beside it."""

from __future__ import annotations

import re

from tapml.sharing.document import ReproDocument

_SCRIPT = '''"""Run one carved test again: kernel {kernel}, test {test} of {suite}.

    python {name} [DEVICE]

It needs tapml, whose README says how to install it.

DEVICE: chromium (the default), firefox, node-dawn, deno, or "open" to wait for any browser.
Tensors, WGSL and tolerances are in {data}.
"""

import sys
from pathlib import Path

import numpy as np

import tapml as tml

repro = tml.load_repro(Path(__file__).with_name("{data}"))
device = tml.webgpu(sys.argv[1] if len(sys.argv) > 1 else "chromium")
kernel = tml.upload(tml.compile(repro, target=device), device)["{kernel}"]

document = repro.document
inputs = [tml.tensor(array, device, encoding=t.encoding) for array, t in zip(repro.inputs, document.inputs)]
# Filled with NaN: what the kernel does not write shows.
outputs = [tml.allocate(t.shape, t.dtype, device, encoding=t.encoding) for t in document.outputs]
kernel(*inputs, *outputs)

for doubt in document.suite.doubts:
    print("DO NOT TRUST the expected outputs:", ascii(doubt)[1:-1])
wrong = unbounded = 0
for number, (output, expected) in enumerate(zip(outputs, repro.expected)):
    got, wanted = output.numpy().astype(np.float64), expected.astype(np.float64)
    # What each element may differ by. Where that is infinite WGSL promises nothing: neither right nor wrong.
    bound = repro.bounds[number]
    unbounded += np.isinf(bound).sum()
    with np.errstate(invalid="ignore"):
        inside = (np.abs(got - wanted) <= bound) & np.isfinite(got) & np.isfinite(wanted)
    # Equal infinities, and NaN where NaN is expected, are right; so are other indices of equal values.
    inside |= (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | repro.tied(number, output.numpy())
    outside = np.argwhere(~(inside | np.isinf(bound)))
    wrong += len(outside)
    where = ascii(device.info.name)[1:-1]
    print(f"output {{number}}: {{len(outside)}} of {{got.size}} elements outside the tolerance on {{where}}")
    for index in outside[:8]:
        print(f"  {{index.tolist()}}: {{got[tuple(index)]}}, expected {{wanted[tuple(index)]}}")
if unbounded:
    print(f"{{unbounded}} elements are unbounded: WGSL promises nothing for them")
device.close()
sys.exit(1 if wrong or unbounded else 0)
'''


def script_text(document: ReproDocument, name: str, data: str) -> str:
    """The script; `name` is its own file's name, `data` the safetensors file's."""
    facts = {"test": document.test.id, "suite": document.suite.name, "name": name, "data": data}
    # These stand in a docstring, and `data` in a string: nothing that could end either.
    safe = {key: re.sub(r"[^A-Za-z0-9 ._()-]", "_", value) for key, value in facts.items()}
    return _SCRIPT.format(kernel=document.test.kernel, **safe)
