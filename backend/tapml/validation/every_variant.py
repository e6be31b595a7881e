"""Variants that a device could run and does not choose: they are tested as the one that it does, so that whatever is
chosen, there or on a device like it, is proven."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tapml.devices import Device
from tapml.devices.calls import Telling
from tapml.devices.device import CLOSED
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost
from tapml.kernels.choice import best_fitting, fits
from tapml.protocol.kernels import Kernel
from tapml.protocol.methods import TestVerdict, ValidateParams
from tapml.protocol.session import VALIDATE
from tapml.results.validation import TestResult
from tapml.results.verdicts import FAILING
from tapml.suite import CarvedTest
from tapml.validation.context import JobContext
from tapml.validation.results import reported_result, result_without_run

Parts = Callable[[Sequence[CarvedTest]], Sequence[CarvedTest]]
"""The first of some tests, as many as make one call."""


def others(kernel: Kernel, device: Device) -> list[Kernel]:
    """The kernel with one variant each, of those that devices choose from by the time that they are expected to take.
    Of others a device always runs the first that it can."""
    if not all(variant.expected for variant in kernel.variants):
        return []
    hello = device.hello
    adapter, features, limits = hello.adapter.model_dump(), hello.features, hello.limits
    best = best_fitting(kernel.variants, adapter, features, limits)
    return [
        kernel.model_copy(update={"variants": [variant]})
        for variant in kernel.variants
        if variant is not best and fits(variant.requires, features, limits)
    ]


def failures(
    context: JobContext, device: Device, tests: Sequence[CarvedTest], messages: KernelMessages, part: Parts
) -> dict[str, TestResult]:
    """Test -> its result, of those that some variant fails which the device would not choose. Raises
    Cancelled."""
    found: dict[str, TestResult] = {}
    for kernels in _rounds(tests, messages, device):
        todo = [test for test in tests if test.kernel in kernels and test.id not in found]
        while todo:
            context.cancel.check()
            some = list(part(todo))
            try:
                found |= _failing(context, device, some, kernels, messages)
                done = {test.id for test in some}
            except DeviceLost as error:
                if not device.connected or error.lost_reason == CLOSED:
                    return found  # so will be told of the variants that it chooses
                guilty = [test for test in some if test.kernel == error.kernel] or some
                found |= {t.id: result_without_run(t, device.id, "error", error.summary) for t in guilty}
                done = {test.id for test in guilty}
            todo = [test for test in todo if test.id not in done]
    return found


def _rounds(tests: Sequence[CarvedTest], messages: KernelMessages, device: Device) -> Iterator[Mapping[str, Kernel]]:
    """In each round one of the other variants of each kernel that has more."""
    names = dict.fromkeys(test.kernel for test in tests)
    left = {name: others(messages.kernel(name), device) for name in names}
    while any(left.values()):
        yield {name: variants.pop(0) for name, variants in left.items() if variants}


def _failing(
    context: JobContext,
    device: Device,
    tests: Sequence[CarvedTest],
    kernels: Mapping[str, Kernel],
    messages: KernelMessages,
) -> dict[str, TestResult]:
    by_id = {test.id: test for test in tests}
    found: dict[str, TestResult] = {}

    def on_progress(progress: Telling) -> None:
        if isinstance(progress, TestVerdict) and (test := by_id.get(progress.id)) and progress.verdict in FAILING:
            found[test.id] = reported_result(test, device.id, progress, edited=messages.edited(test.kernel))

    names = dict.fromkeys(test.kernel for test in tests)
    params = ValidateParams(kernels=[kernels[name] for name in names], tests=[messages.test(test) for test in tests])
    try:
        device.call(
            VALIDATE, params, on_progress=on_progress, check=context.cancel.check, hang_seconds=context.hang_seconds
        )
    except DeviceLost:
        raise
    except DeviceError as error:
        return {test.id: result_without_run(test, device.id, "error", error.summary) for test in tests}
    return found
