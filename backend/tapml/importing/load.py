"""`import_model` and `import_decoder`: which door a model goes through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tapml.errors import InputError, ToolchainError
from tapml.importing.inputs import gather_steps
from tapml.importing.model import Functions, ImportedModel, Progress, Replace
from tapml.memory import give_back, only_new_garbage
from tapml.models import MINILM, model_file


@only_new_garbage()
def import_model(
    model: str,
    *,
    texts: Sequence[str] = (),
    one_by_one: bool = False,
    input_files: Sequence[Path] = (),
    input_arrays: Mapping[str, Path] = MappingProxyType({}),
    random_inputs: bool = False,
    seed: int = 0,
    functions: Functions = MappingProxyType({}),
    loop_limit: int | None = None,
    quantise: str | None = None,
    activations: str | None = None,
    progress: Progress = lambda _: None,
) -> ImportedModel:
    """Bring a model and its inputs in: `minilm`, a .onnx file or a .pt2 file.

    minilm takes `texts` (one batch, or with `one_by_one` a step for each; a sentence of its own if
    there are none). The files take their
    inputs from `input_files` (.npz or .safetensors, one step each), `input_arrays` (input name to
    .npy file, one step together) or, with `random_inputs`, make them up from `seed`. Sizes
    that are the same in all steps are fixed in the model, those that differ are its symbols.

    `functions` compute the operators of their names; others that TVM lacks are computed by ONNX
    Runtime or PyTorch. `loop_limit`: the most turns of an ONNX file's loops whose number depends on values; without it
    some more than the given inputs take. `quantise`: how weights of products are stored as integers
    (docs/quantise.md); the oracle computes with what these stand for. `activations`, "int8": what the rows are rounded
    to that linear layers multiply with quantised weights, by the oracle, too. `progress` is told what is being done.
    Raises InputError for whatever cannot be used: one sentence that names the file, operator or tensor and what to do
    about it.
    """
    if loop_limit is not None and loop_limit < 1:
        raise InputError(f"a limit of {loop_limit} turns of a loop leaves none: give 1 or more")
    given = bool(input_files or input_arrays)
    if model == MINILM:
        if loop_limit is not None:
            raise InputError("minilm has no loops: leave out --loop-limit")
        if given or random_inputs:
            raise InputError("minilm takes text: give --text instead of input tensors")
        from tapml.importing.minilm import import_minilm

        return _imported(
            model,
            quantise,
            lambda replaced: import_minilm(texts, progress, one_by_one, replaced),
            activations=activations,
        )

    path = model_file(model)
    if texts or one_by_one:
        raise InputError(f"{model} takes tensors, not text: give --inputs, --input or --random-inputs")
    import_file: Callable[..., ImportedModel]
    if path.suffix == ".onnx":
        from tapml.importing.onnx_model import import_onnx

        import_file = partial(import_onnx, loop_limit=loop_limit)
    else:
        if loop_limit is not None:
            raise InputError(f"{path} has no loops whose turns values count: leave out --loop-limit")
        try:  # before TVM's importer of its programs asks for it
            import torch  # noqa: F401
        except ImportError as error:
            how = "pip install 'tapml[torch]', or scripts/pytorch in a checkout"
            raise InputError(f"{path}: reading .pt2 files needs PyTorch: {how}") from error
        from tapml.importing.exported_program import import_exported_program

        import_file = import_exported_program
    gather = partial(
        gather_steps,
        input_files=input_files,
        input_arrays=input_arrays,
        random_inputs=random_inputs,
        seed=seed,
    )
    imported = _imported(
        model,
        quantise,
        lambda replaced: import_file(path, gather, progress, functions, replaced=replaced),
        activations=activations,
    )
    give_back()
    return replace(imported, functions=functions)


def _imported(
    model: str,
    quantise: str | None,
    importer: Callable[[Replace | None], ImportedModel],
    measured: Callable[[Replace], Mapping[str, Any] | None] | None = None,
    activations: str | None = None,
) -> ImportedModel:
    _check_activations(activations, quantise)
    if quantise is None:
        return importer(None)
    # Late, as the doors: TVM takes seconds to load.
    from tapml.importing.quantised import quantised

    return quantised(quantise, model, importer, measured, activations)


def _check_activations(activations: str | None, quantise: str | None) -> None:
    if activations is not None:
        from tapml.importing.activations import check_activations

        check_activations(activations, quantise)


@only_new_garbage()
def import_decoder(
    path: Path,
    *,
    prompt: str | Sequence[int] | None = None,
    steps: int = 3,
    capacity: int | None = None,
    chunk: int = 32,
    speculate: int = 0,
    batch: int = 0,
    draws: bool = False,
    seed: int = 0,
    source: Any = None,
    encoder: bool = False,
    quantise: str | None = None,
    quantise_text: str | None = None,
    activations: str | None = None,
    functions: Functions = MappingProxyType({}),
    progress: Progress = lambda _: None,
) -> ImportedModel:
    """Bring a decoder of transformers in, from a folder with its weights, a GGUF file, or a config.json, whose weights
    are made up from `seed`: a step for each chunk of at most `chunk` tokens of the prompt, then `steps` with a token
    each, which are those that transformers itself continues with.

    With `speculate` there is a last step of one token and as many that follow it, which gives the logits of each: the
    model can verify drafts then (docs/generation.md). With `batch` calls may have tokens of several sequences, of which
    that many fit when they are as long as can be; with `draws` a function draws tokens, which is carved, too.
    The prompt is text (where there is a tokenizer.json) or tokens; without one it is made up, of the same seed, and so
    marked. `capacity` tokens fit in the cache (default: what the model takes, at most 1024).
    Of a model with an encoder, the decoder, or the `encoder`, whose outputs are inputs of the decoder; `source` is what
    the encoder is given: tokens, or an array as the model takes it (default: made up).
    `quantise`: how weights of products are stored as integers, and `activations`, "int8", what the rows are rounded to
    that linear layers multiply with quantised weights (docs/quantise.md).
    Raises InputError for whatever cannot be used, and for a model that does more than the export keeps; ToolchainError
    without PyTorch or transformers.
    """
    require_transformers(path)
    from tapml.importing.hf_import import Prompt, import_decoder
    from tapml.importing.hf_quantised import cost_of_text

    asked = Prompt(prompt, steps, speculate, source, batch, draws)

    def importer(replaced: Replace | None) -> ImportedModel:
        return import_decoder(
            path,
            progress,
            functions,
            prompt=asked,
            capacity=capacity,
            chunk=chunk,
            seed=seed,
            encoder=encoder,
            replaced=replaced,
        )

    def measured(replaced: Replace) -> Mapping[str, Any]:
        progress("measuring what quantising costs")
        return cost_of_text(path, asked, seed, replaced, quantise_text)

    imported = _imported(str(path), quantise, importer, None if encoder else measured, activations)
    give_back()
    return replace(imported, functions=functions)


@only_new_garbage()
def import_unweighted(
    path: Path,
    *,
    capacity: int | None = None,
    chunk: int = 32,
    quantise: str | None = None,
    activations: str | None = None,
    progress: Progress = lambda _: None,
) -> ImportedModel:
    """The decoder of a config.json of transformers, of which nobody has weights yet: as `import_decoder` gives it,
    without steps, and with names and types of its parameters. Takes no memory for them. `quantise` and `activations` as
    there.

    Raises InputError for whatever cannot be used; ToolchainError without PyTorch or transformers.
    """
    require_transformers(path)
    _check_activations(activations, quantise)
    from tapml.importing.hf_unweighted import import_unweighted

    imported = import_unweighted(path, progress, capacity=capacity, chunk=chunk)
    if quantise is None:
        return imported
    from tapml.importing.quantised import quantised_without_weights

    return quantised_without_weights(imported, quantise, str(path), activations)


def require_transformers(path: Path | str) -> None:
    """Raises ToolchainError where PyTorch or transformers is missing, which reading `path` takes."""
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        how = "pip install 'tapml[transformers]'; in a checkout `make demo MODEL=tiny` installs it and shows a model"
        raise ToolchainError(f"{path}: reading decoders of transformers needs {error.name}: {how}") from error
