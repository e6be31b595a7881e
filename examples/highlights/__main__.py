"""Device-cloud recognition, as Walle's highlights (OSDI 2022): a small model on the device decides, and what it is not
sure of goes through the tunnel to a larger model in the cloud. `make example-highlights`; docs/field.md says more."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

import models  # noqa: E402
import tapml as tml  # noqa: E402
from field_example import Service, arguments, build, opened, run, shown  # noqa: E402
from tapml.field.storage.records import Records  # noqa: E402

TASK = "highlights/recognise"
SENT = 0.12
"""The share of images that the cloud is to be asked about, as in the seed."""

_HERE = Path(__file__).parent
_LOOK_SECONDS, _LATE_SECONDS = 0.05, 120.0


class Cloud:
    """The larger model, compiled for the CPU, beside the service: it takes what comes out of the tunnel."""

    def __init__(self, model: Path, example: Path) -> None:
        module = tml.load(model, input_arrays={"pixels": example})
        self._device = tml.cpu()
        self._model = tml.upload(tml.compile(module, target=self._device))[module.main]
        self._weights = [tml.tensor(weight, self._device) for weight in module.parameters.values()]
        (made,) = module.output
        self._made = tml.allocate(made.shape, made.dtype, self._device)
        self.found: dict[int, int] = {}
        """Labels by image."""
        self.milliseconds: list[float] = []

    def recognise(self, pixels: np.ndarray) -> int:
        """Of one image, (64,), the digit."""
        given = tml.tensor(pixels.reshape(1, -1).astype(np.float32), self._device)
        self._model(given, *self._weights, self._made)
        return int(self._made.numpy().argmax())

    @contextmanager
    def watching(self, records: Records) -> Iterator[Future[None]]:
        """It takes what comes for the length of a `with` block. Gives what ends with an error if it does."""
        ended = threading.Event()
        with ThreadPoolExecutor(1) as worker:
            watch = worker.submit(self._watch, records, ended)
            try:
                yield watch
            finally:
                ended.set()

    def wait(self, count: int, watch: Future[None]) -> None:
        """Until it has decided about so many images, or is late. Raises what `watch` ended with."""
        deadline = time.monotonic() + _LATE_SECONDS
        while len(self.found) < count and time.monotonic() < deadline:
            with suppress(TimeoutError):
                watch.result(_LOOK_SECONDS)

    def _watch(self, records: Records, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_SECONDS):
            for _, _, _, value in records.values(TASK)[len(self.found) :]:
                begun = time.perf_counter()
                self.found[value["image"]] = self.recognise(np.asarray(value["pixels"]))
                self.milliseconds.append(1000 * (time.perf_counter() - begun))


def highlights(options: argparse.Namespace) -> dict[str, Any]:
    folder = options.output
    print("training two models on real digits, and compiling them")
    trained, validated, held_out = models.digits()
    small, large = models.small(trained), models.large(trained)
    task = folder / "task"
    shutil.copytree(_HERE / "task", task)
    # As many of those that the threshold is chosen by are below it as the cloud is to be asked about.
    threshold = float(np.quantile(models.shares(small, validated.pixels).max(1), SENT))
    (task / "threshold.json").write_text(json.dumps({"confidence": threshold}))
    example = folder / "pixels.npy"
    np.save(example, trained.pixels[:1])
    for name, model in (("small", small), ("large", large)):
        models.save(model, folder / f"{name}.pt2", trained.pixels[:1])
    build(folder / "small.pt2", {"pixels": example}, task / "model.tapml", options.device)
    cloud = Cloud(folder / "large.pt2", example)

    with Service(folder, {TASK: task}, _HERE) as service:
        (service.site / "images.json").write_text(json.dumps(held_out.pixels.astype(int).tolist()))
        print(f"{len(held_out.labels)} images that no model has seen, in {options.device}")
        records = Records(service.database)
        with cloud.watching(records) as watch, opened(options.device, service.page) as page:
            told = page.evaluate("recognise()")
            cloud.wait(told["left"], watch)
    measured = _measured(told, cloud, held_out, models.shares(large, held_out.pixels).argmax(1), threshold)
    measured["multiplications"] = {"small": models.multiplications(small), "large": models.multiplications(large)}
    measured["browser"] = options.device
    _show(measured)
    return measured


def _measured(
    told: dict[str, Any], cloud: Cloud, images: models.Images, by_large: np.ndarray, threshold: float
) -> dict[str, Any]:
    """tapml.example-highlights/1, without what is known before."""
    found = told["found"]
    device = np.array([one["label"] for one in found])
    unsure = {at for at, one in enumerate(found) if one["unsure"]}
    if unsure != set(cloud.found):
        raise SystemExit(f"{len(unsure)} images were sent, and {len(cloud.found)} came")
    both = device.copy()
    for image, label in cloud.found.items():
        both[image] = label
    right = {"small": device, "large": by_large, "both": both}
    sure = np.array([at not in unsure for at in range(len(found))])
    milliseconds = [one["ms"] for one in found[1:]]
    return {
        "format": "tapml.example-highlights/1",
        "images": len(found),
        "threshold": threshold,
        "sent": len(unsure),
        "accuracy": {name: float((labels == images.labels).mean()) for name, labels in right.items()},
        "accuracy_where_sure": float((device == images.labels)[sure].mean()),
        "load_saved": 1 - len(unsure) / len(found),
        "first_result_s": told["first"] / 1000,
        "device_ms": {"p50": float(np.percentile(milliseconds, 50)), "p95": float(np.percentile(milliseconds, 95))},
        "cloud_ms": {"p50": float(np.percentile(cloud.milliseconds, 50))},
    }


def _show(found: dict[str, Any]) -> None:
    accuracy, cost = found["accuracy"], found["multiplications"]
    sent = found["sent"] / found["images"]
    rows = [
        ("images", f"{found['images']}, of which {found['sent']} ({sent:.1%}) went to the cloud"),
        ("load saved", f"{found['load_saved']:.1%} of the images, and of the larger model's "
         f"{cost['large'] * found['images'] / 1e6:,.0f} million multiplications as many"),
        ("the device", f"{cost['small']} multiplications an image (the larger model: {cost['large']:,})"),
        ("right", f"small alone {accuracy['small']:.1%}, large alone {accuracy['large']:.1%}, "
         f"both together {accuracy['both']:.1%}"),
        ("where it is sure", f"{found['accuracy_where_sure']:.1%} right, at a threshold of {found['threshold']:.3f}"),
        ("time", f"a run on the device {found['device_ms']['p50']:.0f} ms (p95 {found['device_ms']['p95']:.0f}), the "
         f"first after {found['first_result_s']:.1f} s; the larger model {found['cloud_ms']['p50']:.1f} ms"),
    ]  # fmt: skip
    shown("summary", rows)


if __name__ == "__main__":
    run(highlights, arguments("highlights", __doc__.split(".")[0]))
