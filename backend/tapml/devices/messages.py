"""Building what is sent to a device: kernels, tests and commands as the protocol spells them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tapml.devices.blobs import Blobs
from tapml.devices.commands import message
from tapml.errors import InputError
from tapml.files import sha256
from tapml.kernels.document import overwritten
from tapml.protocol.kernels import Kernel
from tapml.protocol.methods import Test
from tapml.results.earlier import as_now
from tapml.results.validation import ValidationDocument
from tapml.suite import CarvedTest, KernelFile, Suite
from tapml.suite.kernels import SuiteKernel


def kernel_message(bundle: Mapping[str, Any], code: Sequence[str]) -> Kernel:
    """`code` are the digests of its variants' entry points' WGSL, in the bundle's order."""
    digests = iter(code)
    variants = [
        {**variant, "entry_points": [{**entry_point, "code": next(digests)} for entry_point in variant["entry_points"]]}
        for variant in bundle["variants"]
    ]
    overwrites = [{"argument": output, "input": before} for output, before in overwritten(bundle).items()]
    found = {**bundle, "variants": variants, "overwrites": overwrites}
    return message(Kernel, found, f"kernel {bundle['kernel']}")


def made_by_tvm(bundle: Mapping[str, Any]) -> bool:
    """Documents of version 1 do not say who made them: nobody else could."""
    return bundle["compiler"]["name"] in ("tvm", "")


def encodes(bundle: Mapping[str, Any]) -> bool:
    """Whether it takes a tensor otherwise than its dtype says, which TVM's own virtual machine cannot give it."""
    return any(argument.get("encoding") for argument in bundle["arguments"])


def kernel_digest(kernel: Kernel) -> str:
    """Of everything that devices are given of a kernel: another one means that another kernel runs."""
    # What a kernel has not got is left out, so that a field that comes to be makes no other kernel of those before it.
    return sha256(kernel.model_dump_json(exclude_defaults=True))[:16]


def digest_now(suite: Suite, name: str) -> str:
    """`kernel_digest` of a kernel as it lies in the folder now; empty where there is none. Raises InputError for a
    damaged one."""
    bundle = suite.bundle(name)
    if bundle["unsupported"]:
        return ""
    return kernel_digest(kernel_message(bundle, [file.digest for file in suite.kernel_files(name)]))


def validations_now(suite: Suite, documents: Sequence[ValidationDocument]) -> list[ValidationDocument]:
    """The suite's validations with what is known of each kernel as it lies in the folder now: a verdict is of a
    kernel's digest, and an edit that was undone has that of before."""
    names = {name for document in documents for name in document["kernel_digests"] if name in suite.kernels}
    now: dict[str, str | None] = {}
    for name in names:
        with contextlib.suppress(InputError):  # a damaged one is another one
            now[name] = digest_now(suite, name)
    return [as_now(document, now) for document in documents]


class KernelMessages:
    """A suite's kernels as protocol messages, with the WGSL text as it is in the folder now.

    A context manager: holds the texts in `blobs` until it is left.
    """

    def __init__(
        self,
        suite: Suite,
        blobs: Blobs,
        kernels: Sequence[str] | None = None,
        alone: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`alone`: of a kernel the variant that runs, whatever the device would take."""
        self._alone = alone
        self._blobs = blobs
        self.sizes_of = suite.sizes_of
        self._bundles = {name: suite.bundle(name) for name in (suite.kernels if kernels is None else kernels)}
        self._files: dict[str, list[KernelFile]] = {
            name: suite.kernel_files(name) for name, bundle in self._bundles.items() if not bundle["unsupported"]
        }
        self._held = [blobs.hold(file.text.encode()) for files in self._files.values() for file in files]

    def __enter__(self) -> KernelMessages:
        return self

    def __exit__(self, *_: object) -> None:
        for digest in self._held:
            self._blobs.release(digest)
        self._held = []

    def unsupported(self, kernel: str) -> str | None:
        """Why no WGSL could be generated for this kernel."""
        reason = self._bundles[kernel]["unsupported"]
        return str(reason) if reason else None

    def edited(self, kernel: str) -> bool:
        return SuiteKernel(self._bundles[kernel], self._files.get(kernel, [])).edited

    def digest(self, name: str) -> str:
        """`kernel_digest` of this kernel; empty where there is none."""
        return "" if self.unsupported(name) else kernel_digest(self.kernel(name))

    def nbytes(self, name: str) -> int:
        """Of this kernel in a message."""
        return len(self.kernel(name).model_dump_json())

    def kernel(self, name: str) -> Kernel:
        made = kernel_message(self._bundles[name], [file.digest for file in self._files[name]])
        own = [variant for variant in made.variants if variant.name == self._alone.get(name)]
        return made.model_copy(update={"variants": own}) if own else made

    def replacements(self) -> dict[str, str]:
        """Entry points of kernels that TVM made, and that take tensors as they are -> digest of their WGSL
        (RunModelParams.replace).

        All of them, not only those that somebody edited: what TVM links into a model library has constants of seven
        digits (compilers/tvm/constants.py), and the model shall run what was validated.
        """
        replaced = {}
        for name, files in self._files.items():
            if not made_by_tvm(self._bundles[name]) or encodes(self._bundles[name]):
                continue
            base = self._bundles[name]["variants"][-1][
                "entry_points"
            ]  # the variant that model libraries are linked from
            for entry_point, file in zip(base, files[-len(base) :], strict=True):
                replaced[entry_point["name"]] = file.digest
        return replaced

    def test(self, test: CarvedTest) -> Test:
        return message(Test, test.to_json(), f"test {test.id}")
