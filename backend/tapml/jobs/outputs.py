"""What a test's kernel gives on a device: the outputs themselves, which no verdict carries, and whose work they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from tapml.devices.device import HANG_SECONDS
from tapml.devices.messages import KernelMessages
from tapml.errors import InputError
from tapml.jobs.job import PlainName, TriedFiles
from tapml.locating.examine import Examiner
from tapml.locating.workgroups import workgroups_of
from tapml.protocol.base import Message
from tapml.protocol.session import HangSeconds
from tapml.suite import Suite
from tapml.suite.trial import with_files
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import require_devices


class OutputsSpecification(Message):
    """The body of `POST /api/suites/<suite>/tests/<test>/outputs` and `.../workgroups`."""

    device: PlainName
    hang_seconds: HangSeconds = Field(default=HANG_SECONDS, le=86_400)
    files: TriedFiles | None = None
    """Texts that are tried in the place of files of the test's kernel."""

    def suite(self, suite: Suite, test_id: str) -> Suite:
        """The suite with the files that are tried. Raises InputError for a test that is none, for a file that is none
        of its kernel's, and for what makes a kernel that is none."""
        kernel = suite.test(test_id).kernel
        return suite if self.files is None else with_files(suite, [kernel], self.files)


@dataclass(frozen=True)
class TestOutputs:
    """By their number, in the test's order: "0", "1". `text` goes with them."""

    outputs: Mapping[str, np.ndarray]
    text: str = ""


def outputs_of(context: JobContext, test_id: str) -> TestOutputs:
    """Run a test's kernel once, as it is now, on the context's device.

    Raises InputError for a test that is none or a device that cannot run kernels, DeviceError where the kernel does not
    run there, and Cancelled.
    """
    require_devices(context.devices)
    test = context.suite.test(test_id)
    with KernelMessages(context.suite, context.blobs, [test.kernel]) as messages:
        found = Examiner(context, messages).once(test)
    return TestOutputs({str(place): array for place, array in enumerate(found)})


def output_workgroups(context: JobContext, test_id: str) -> TestOutputs:
    """For each output of a test which workgroup computes each element (uint32, `tapml.locating.workgroups`), as the
    kernel is now, measured on the context's device; an output of which it cannot be known is left out. The text, JSON:
    `{"grids": {"0": [x, y, z]}}`, the workgroups of the launch.

    Raises what `outputs_of` does.
    """
    require_devices(context.devices)
    test = context.suite.test(test_id)
    bundle = context.suite.bundle(test.kernel)
    if bundle["unsupported"]:
        raise InputError(f"{test.kernel} has no WGSL: {bundle['unsupported']}")
    found = workgroups_of(context, bundle, context.suite.kernel_files(test.kernel), test)
    text = json.dumps({"grids": {str(output): one.grid for output, one in found.items()}})
    return TestOutputs({str(output): one.numbers for output, one in found.items()}, text)
