"""The benchmark's models, each carved once by tapml itself and kept until a source that it depends on changes."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch

from benchmarks.localization import architectures, layers, training
from tapml.cache import cache_dir
from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.files import sha256
from tapml.importing import ImportedModel, import_model
from tapml.suite import Suite

SENTENCE = "Good morning"
SIZE = 16
"""Pictures are so many pixels wide and high."""

_DEPENDS_ON = (
    "bounds", "carving", "compare", "compilers", "importing", "kernels", "lowering", "operators", "platforms",
    "program", "suite",
)  # fmt: skip
Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def _decoder() -> Made:
    model = architectures.Decoder(layers=3, width=64, heads=4)
    training.train_language(model)
    ids = training.text_ids()[None, 1000:1016].to(torch.int32)
    _, past = model(ids[:, :12])
    return model, (ids[:, 12:], past)


def _mixture() -> Made:
    model = architectures.Mixture(layers=2, width=32, heads=4)
    training.train_language(model)
    return model, (training.text_ids()[None, 2000:2012].to(torch.int32),)


def _recurrent() -> Made:
    model = architectures.Recurrent(layers=3, width=64)
    training.train_recurrent(model, model.empty)
    state, ids = model.empty(1), training.text_ids()[3000:3016].to(torch.int32)
    for place in range(15):
        _, *layers = model(ids[place : place + 1], state)
        state = torch.stack(layers)
    return model, (ids[15:], state)


def _convolutional() -> Made:
    model = architectures.Convolutional(blocks=30)
    training.train_vision(model, SIZE)
    model.fold()
    return model, (training.shapes(1, SIZE)[0],)


def _quantised() -> Made:
    model = architectures.Decoder(layers=3, width=64, heads=4)
    training.train_language(model)
    return architectures.quantise(model), (training.text_ids()[None, 4000:4010].to(torch.int32),)


def _layers() -> Made:
    return layers.Layers(), layers.inputs()


_MAKERS: dict[str, Callable[[], Made]] = {
    "layers": _layers,
    "decoder": _decoder,
    "mixture": _mixture,
    "recurrent": _recurrent,
    "convolutional": _convolutional,
    "quantised": _quantised,
}
ARCHITECTURES = {
    "encoder": "all-MiniLM-L6-v2, real weights",
    "decoder": "like GPT-2, with a KV cache in and out",
    "mixture": "like Mixtral: top-2 of 4 experts",
    "recurrent": "like RWKV-4, with its state in and out",
    "convolutional": "like MobileNet",
    "quantised": "like GPT-2, four-bit weights in groups of 32",
}
MODELS = tuple(ARCHITECTURES)
FURTHER = (*MODELS, "layers")
"""Those that explanations are tested on besides."""


def suite(name: str, compiler: str = "tvm") -> Suite:
    """The carved suite of a model, with kernels as `--compiler` makes them; carved now where its sources, or tapml's,
    are others than those it was carved by."""
    path = cache_dir() / "benchmarks" / "localization" / f"{name}-{compiler}-{_made_by()}.suite"
    if not (path / "suite.json").is_file():
        carve(_imported(name), path, name=name, compilers=CHOICES[compiler])
    return Suite(path)


def _imported(name: str) -> ImportedModel:
    if name == "encoder":
        return import_model("minilm", texts=[SENTENCE])
    torch.manual_seed(0)
    torch.set_num_threads(1)  # threads that wait for each other take minutes on a busy machine
    model, inputs = _MAKERS[name]()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(model.eval(), tuple(tensor.detach() for tensor in inputs))
        file, arrays = Path(folder) / f"{name}.pt2", Path(folder) / f"{name}.npz"
        torch.export.save(program, file)
        names = [str(given) for given in program.graph_signature.user_inputs]
        np.savez(arrays, **{given: tensor.numpy() for given, tensor in zip(names, inputs, strict=True)})
        return import_model(str(file), input_files=[arrays])


def sources(*folders: str) -> str:
    """A digest of tapml's modules in these folders."""
    import tapml

    root = Path(tapml.__file__).parent
    files = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return _digest(files)


def _made_by() -> str:
    """A digest of what a suite is made by and of."""
    modules = (architectures, layers, training)
    files = [Path(module.__file__ or "") for module in modules] + [Path(__file__), training.TEXT]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("apache-tvm", "torch", "numpy")]
    return sha256(" ".join([sources(*_DEPENDS_ON), _digest(files), *versions]))[:12]


def _digest(files: Iterable[Path]) -> str:
    return sha256(" ".join(sha256(path.read_bytes()) for path in files))
