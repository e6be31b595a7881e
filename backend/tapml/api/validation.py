"""Validating a suite's kernels on a device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tapml.api.devices import Device, WebGpuDevice
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.formats import validated
from tapml.jobs import JobSpecification, run_job
from tapml.results.base import distrust
from tapml.results.validation import ValidationDocument
from tapml.suite import Suite
from tapml.validation.context import JobContext


def validate(
    suite: Suite | str | Path,
    device: Device,
    *,
    kernels: Sequence[str] | None = None,
    tests: Sequence[str] | None = None,
    hang_seconds: float = HANG_SECONDS,
    save: bool = False,
) -> ValidationDocument:
    """Run every carved test of `suite` (or those of `kernels`, or of these ids) on `device`, as `tapml validate` does.

    Gives the document tapml.validation/1 (docs/results-format.md): `document["tests"]` has the verdict of each test,
    `document["summary"]` their counts. A test that does not pass is no exception: `summary["pass"]` is less than
    `summary["total"]` then. `hang_seconds`: a kernel that takes longer is an error. `save` keeps the document in the
    suite, where its page shows it. `document["doubts"]` says why the suite's expected outputs are not to be believed,
    where it was kept all the same; a UserWarning says so as well.

    Raises InputError for what is no suite, a damaged one, a kernel or test that it has not, and for a device that is no
    WebGPU device; DeviceError where the device is gone.
    """
    if not isinstance(device, WebGpuDevice):
        raise InputError(f"{device!r} does not run WGSL kernels: give tml.webgpu(...)")
    found = suite if isinstance(suite, Suite) else Suite(Path(suite))
    for line in distrust(str(found.path), found.doubts):
        warnings.warn(line, stacklevel=2)
    fields: dict[str, Any] = {
        "kind": "validation",
        "devices": [device.name],
        "kernels": None if kernels is None else list(kernels),
        "tests": None if tests is None else list(tests),
        "hang_seconds": hang_seconds,
        "save": save,
        "record": False,
    }
    job = validated("validate", JobSpecification, fields, "")
    job.check(found)
    device.synchronize()
    context = JobContext(found, [device.session.device], device.session.blobs)
    return cast(ValidationDocument, run_job(job, context))
