"""Reduce: a failing test made smaller while it still fails (tapml.reduce/1)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from tapml.devices.commands import freed, uploaded
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, InputError
from tapml.expressions import evaluate
from tapml.locating.evidence import Evidence, jsonable
from tapml.locating.examine import one_run
from tapml.locating.reduced_reference import Reduced, ReducedReference
from tapml.locating.reduced_repro import reduced_repro
from tapml.locating.simplify import Budget, simplify
from tapml.protocol import methods
from tapml.protocol.kernels import Kernel
from tapml.results.reduce import ReducedInput, ReduceDocument, ReducedOutput, Workgroups
from tapml.sharing import Repro
from tapml.suite import CarvedTest
from tapml.validation.context import JobContext
from tapml.validation.every_variant import others
from tapml.validation.results import header

MOST_RUNS = 400
MOST_SECONDS = 90.0
_LIBRARY = "reduce"


class Reduce:
    """One reduction on one device; `run` blocks until nothing simpler fails or the budget is spent."""

    def __init__(self, context: JobContext, test: str) -> None:
        """Raises InputError for an unknown test, one without its operator's program, or a kernel without WGSL."""
        self._context = context
        self.suite = suite = context.suite
        self.test: CarvedTest = suite.test(test)
        self.device = context.device
        bundle = suite.bundle(self.test.kernel)
        if bundle["unsupported"]:
            raise InputError(f"{self.test.kernel} has no WGSL: {bundle['unsupported']}")
        self._names = [str(argument["name"]) for argument in bundle["arguments"]]
        self._reference = ReducedReference(suite, self.test, context.functions)
        self._budget = Budget(MOST_RUNS, MOST_SECONDS)
        self._uploaded: dict[int, str] = {}
        self._kernel: Kernel | None = None
        self.reduced: Reduced | None = None

    def run(self) -> ReduceDocument:
        """Give the document; `repro` has the arrays then.

        Raises Cancelled, InputError where the test does not fail on the device, and DeviceError where its kernel does
        not run.
        """
        started = time.perf_counter()
        carved = [self.suite.tensors.get(ref) for ref in self.test.inputs]
        with KernelMessages(self.suite, self._context.blobs, [self.test.kernel]) as messages:
            whole = messages.kernel(self.test.kernel)
            try:
                # What fails may be a variant that the device would not take.
                for kernel in (whole, *others(whole, self.device)):
                    self._kernel = kernel
                    self._load(kernel)
                    if self._fails(carved):
                        break
                else:
                    raise InputError(
                        f"{self.test.id} passes on {self.device.name}: there is nothing to reduce "
                        "(a race may fail now and then: `tapml locate` runs it several times)"
                    )
                inputs = simplify(carved, self._fails, self._budget)
                self.reduced = self._judge(inputs)
                workgroups = self._fewer_workgroups(inputs)
            finally:
                self._context.free(freed(_LIBRARY))
            name, interrupted = self.test.kernel, self._context.cancel.requested
            edited = [name] if messages.edited(name) else []
            digests = {name: messages.digest(name)}
        return {
            "format": "tapml.reduce/1",
            **header(self.suite, [self.device], interrupted=interrupted, edited=edited, digests=digests),
            "test": self.test.id,
            "kernel": name,
            "runs": self._budget.spent,
            "seconds": round(time.perf_counter() - started, 4),
            "inputs": [
                _input(name, before, after)
                for name, before, after in zip(self._names, carved, self.reduced.inputs, strict=False)
            ],
            "outputs": [_output(number, output) for number, output in enumerate(self.reduced.outputs)],
            "workgroups": workgroups,
        }

    def repro(self, document: ReduceDocument) -> Repro:
        """The reduced test as an exported one; `document`: what `run` gave."""
        assert self.reduced is not None, "run"
        return reduced_repro(self.suite, self.test.id, self.reduced, document)

    # ------------------------------------------------ does it still fail?

    def _fails(self, inputs: list[np.ndarray]) -> bool:
        self._context.cancel.check()
        self._context.emit({"type": "reduce", "device": self.device.id, "runs": self._budget.spent})
        return any(output.count for output in self._judge(inputs).outputs)

    def _judge(self, inputs: list[np.ndarray]) -> Reduced:
        expected = self._reference.expected_and_tolerance(inputs)
        outputs = [one.evidence(got) for one, got in zip(expected, self._call(inputs), strict=True)]
        return Reduced(inputs, expected, outputs, dict(self._reference.tensors))

    # ------------------------------------------------ the device

    def _load(self, kernel: Kernel) -> None:
        self._context.execute([methods.LoadCommand(library=_LIBRARY, kernels=[kernel])])

    def _call(self, inputs: Sequence[np.ndarray], fill: int = 0xFF) -> list[np.ndarray]:
        """Run the kernel. Inputs that are there already are not sent again."""
        types = [ref.type for ref in self.test.outputs]
        pieces = [ref.type.encoded(array).tobytes() for ref, array in zip(self.test.inputs, inputs, strict=True)]
        sizes = [found.nbytes for found in types]
        commands: list[methods.Command] = []
        with self._context.blobs.holding([*pieces, *map(bytes, sizes)]) as digests:
            for place, (digest, ref) in enumerate(zip(digests, self.test.inputs, strict=False)):
                if self._uploaded.get(place) != digest:
                    commands.append(uploaded(f"{_LIBRARY}/i{place}", digest, ref.type))
                    self._uploaded[place] = digest
            zeros = dict(zip(sizes, digests[len(pieces) :], strict=True))
            commands += one_run(self.test, _LIBRARY, f"{_LIBRARY}/", zeros, fill)
            return self._context.execute(commands, types)

    # ------------------------------------------------ fewer workgroups

    def _fewer_workgroups(self, inputs: list[np.ndarray]) -> Workgroups:
        """The fewest workgroups from the first on that still write a wrong element. Shapes are fixed in the WGSL."""
        assert self._kernel is not None
        launches = self._kernel.variants[-1].launches
        total = [evaluate(count, self.test.sizes) for count in launches[0].grid]
        if len(launches) != 1 or len(self._kernel.variants) != 1:
            return {"total": total, "needed": None, "text": "the shape is fixed, and all dispatches are needed"}
        if not self._shows(total, inputs):
            text = "the shape is fixed; how many workgroups show it cannot be told: it depends on what the buffer held"
            return {"total": total, "needed": None, "text": text}
        needed = list(total)
        for axis in range(3):
            low, high = 0, needed[axis]  # high workgroups show it, low do not
            while high - low > 1:
                middle = (low + high) // 2
                if self._shows([*needed[:axis], middle, *needed[axis + 1 :]], inputs):
                    high = middle
                else:
                    low = middle
            needed[axis] = high
        count, of = math.prod(needed), math.prod(total)
        text = f"and {f'all {of} workgroups are' if of > 1 else 'its one workgroup is'} needed"
        if count < of:
            text = f"but {count} of its {of} workgroups {'are' if count > 1 else 'is'} enough"
        return {"total": total, "needed": needed, "text": f"the shape is fixed, {text}"}

    def _shows(self, grid: list[int], inputs: list[np.ndarray]) -> bool:
        """Is an element that these workgroups write wrong? What they leave alone keeps the fill, whichever it is."""
        if self.reduced is None or self._kernel is None or not self._budget.left:
            return False
        self._budget.spent += 1
        (variant,) = self._kernel.variants
        (launch,) = variant.launches
        fewer = variant.model_copy(update={"launches": [launch.model_copy(update={"grid": grid})]})
        try:
            self._load(self._kernel.model_copy(update={"variants": [fewer]}))
            first, second = self._call(inputs, 0xFF), self._call(inputs, 0x00)
        except DeviceError:
            return False  # a device may refuse to run it so
        for a, b, expected in zip(first, second, self.reduced.expected, strict=True):
            written = a.view(f"u{a.dtype.itemsize}") == b.view(f"u{b.dtype.itemsize}")
            if bool((written & expected.evidence(a).wrong).any()):
                return True
        return False


def _input(name: str, before: np.ndarray, after: np.ndarray) -> ReducedInput:
    values = after.reshape(-1)
    places = np.flatnonzero(values)
    distinct = np.unique(values)
    return {
        "name": name,
        "dtype": str(after.dtype),
        "shape": list(after.shape),
        "total": int(values.size),
        "nonzero": len(places),
        "nonzero_before": int(np.count_nonzero(before)),
        "distinct": len(distinct),
        "values": jsonable(distinct[:8].astype(np.float64)),
        "elements": [
            {
                "index": [int(i) for i in np.unravel_index(int(place), after.shape)],
                "value": jsonable(values[place].astype(np.float64)),
            }
            for place in places[:8]
        ],
        "changed": not np.array_equal(before, after),
    }


def _output(number: int, output: Evidence) -> ReducedOutput:
    return {
        "output": number,
        "dtype": str(output.got.dtype),
        "shape": list(output.shape),
        "total": output.got.size,
        "mismatched": output.count,
        "worst": output.worst,
    }
