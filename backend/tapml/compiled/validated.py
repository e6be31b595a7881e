"""Whether kernels of a compiled model are known to be right where they are to run, as
runner_js/src/runtime/validated.ts has it."""

from __future__ import annotations

import re

from tapml.compiled.model import CompiledModel, ValidatedDevice
from tapml.text import listed

_NAMED = 3
_LONG = 40
"""Characters of a kernel's name: of a fused one the rest tells nothing here."""
_WRONG = ("fail", "error")
_VALIDATE = "build it with `tapml build --device`, or validate the suite there and build it again"


def unvalidated(model: CompiledModel, name: str, runtime: str) -> list[str]:
    """The kernels that passed on no device such as this one, or were wrong on one. `name` and `runtime` as in the
    model's validations: "Chromium 156" and "browser", say."""
    here = _family(name, runtime)
    there = [found.kernels for found in model.validation if _family_of(found.device) == here]
    found = {kernel.kernel: {one[kernel.kernel] for one in there if kernel.kernel in one} for kernel in model.kernels}
    return [kernel for kernel, verdicts in found.items() if "pass" not in verdicts or verdicts.intersection(_WRONG)]


def failed_somewhere(model: CompiledModel) -> list[str]:
    """The kernels that were wrong on some device."""
    return [kernel.kernel for kernel in model.kernels if _where_wrong(model, kernel.kernel)]


def unvalidated_text(model: CompiledModel, kernels: list[str], device: str, mend: str = _VALIDATE) -> str:
    """What to tell whoever runs them: first of those that are known to be wrong somewhere, then of those that
    devices lacked something for. `mend`: how the others are validated there."""
    failed = {kernel: _where_wrong(model, kernel) for kernel in kernels}
    wrong = [kernel for kernel in kernels if failed[kernel]]
    lacking = {kernel: _where_unsupported(model, kernel) for kernel in kernels if not failed[kernel]}
    unsupported = [kernel for kernel, names in lacking.items() if names]
    unknown = [kernel for kernel, names in lacking.items() if not names]
    parts = []
    if wrong:
        where = listed(sorted({name for kernel in wrong for name in failed[kernel]}), _NAMED)
        parts.append(
            f"{_some(wrong, model)} FAILED when validated on {where}: do not trust what the model gives; "
            "mend them (`tapml locate SUITE` says how they are wrong), validate the suite and build it again"
        )
    if unsupported:
        where = listed(sorted({name for kernel in unsupported for name in lacking[kernel]}), _NAMED)
        parts.append(
            f"{_some(unsupported, model)} were unsupported when validated on {where} without "
            f"{_needed(model, unsupported)}: validate the suite on a device that has what they need and build it again"
        )
    if unknown:
        parts.append(f"{_some(unknown, model)} are not validated on {device}: {mend}")
    return "\n".join(parts)


def _some(kernels: list[str], model: CompiledModel) -> str:
    names = [name if len(name) <= _LONG else f"{name[:_LONG]}..." for name in kernels]
    return f"{len(kernels)} of {len(model.kernels)} kernels ({listed(names, _NAMED)})"


def _where_wrong(model: CompiledModel, kernel: str) -> list[str]:
    return [found.device.name for found in model.validation if found.kernels.get(kernel) in _WRONG]


def _where_unsupported(model: CompiledModel, kernel: str) -> list[str]:
    return [found.device.name for found in model.validation if found.kernels.get(kernel) == "unsupported"]


def _needed(model: CompiledModel, kernels: list[str]) -> str:
    """What every device needs that is to run them, by name."""
    # The last variant is the one that asks least.
    least = [kernel.variants[-1].requires for kernel in model.kernels if kernel.kernel in kernels]
    return ", ".join(sorted({feature for requires in least for feature in requires.features})) or "what they need"


def _family_of(device: ValidatedDevice) -> str:
    return _family(device.name, device.runtime)


def _family(name: str, runtime: str) -> str:
    """Without its version; Chrome is the Chromium of its version."""
    if runtime in ("node", "deno"):
        return runtime
    return re.sub(r"^Chrome\b", "Chromium", re.sub(r" \d[\d.]*", "", name, count=1))
