"""Images with functions named as in OpenCV: `import tapml.images as cv2` (docs/field.md). An image is an array of uint8 or
float32, (height, width) or (height, width, channels); sizes are (width, height)."""

import json
import math

import _tapml_images as _js

from tapml._array import DTYPES, Array, of
from tapml._creation import eye
from tapml._layout import concat, reshape
from tapml._linalg import inv

INTER_NEAREST, INTER_LINEAR, INTER_CUBIC, INTER_AREA = 0, 1, 2, 3
WARP_INVERSE_MAP = 16
BORDER_CONSTANT, BORDER_REPLICATE, BORDER_REFLECT, BORDER_WRAP, BORDER_REFLECT_101 = 0, 1, 2, 3, 4
BORDER_DEFAULT = BORDER_REFLECT_101
_METHODS = {INTER_NEAREST: "nearest", INTER_LINEAR: "linear", INTER_CUBIC: "cubic", INTER_AREA: "area"}
_BORDERS = {
    BORDER_CONSTANT: "constant", BORDER_REPLICATE: "replicate", BORDER_REFLECT: "reflect", BORDER_WRAP: "wrap",
    BORDER_REFLECT_101: "reflect_101",
}  # fmt: skip

COLOR_BGR2BGRA = COLOR_RGB2RGBA = 0
COLOR_BGRA2BGR = COLOR_RGBA2RGB = 1
COLOR_BGR2RGBA = COLOR_RGB2BGRA = 2
COLOR_RGBA2BGR = COLOR_BGRA2RGB = 3
COLOR_BGR2RGB = COLOR_RGB2BGR = 4
COLOR_BGRA2RGBA = COLOR_RGBA2BGRA = 5
COLOR_BGR2GRAY, COLOR_RGB2GRAY = 6, 7
COLOR_GRAY2BGR = COLOR_GRAY2RGB = 8
COLOR_GRAY2BGRA = COLOR_GRAY2RGBA = 9
COLOR_BGRA2GRAY, COLOR_RGBA2GRAY = 10, 11
COLOR_BGR2YCrCb, COLOR_RGB2YCrCb, COLOR_YCrCb2BGR, COLOR_YCrCb2RGB = 36, 37, 38, 39
COLOR_BGR2HSV, COLOR_RGB2HSV = 40, 41

_GRAY = (0.299, 0.587, 0.114)  # of red, green, blue


def _image(given):
    """The image, and its height, width and channels."""
    x = of(given)
    if x.ndim not in (2, 3) or x.dtype.name not in ("uint8", "float32") or 0 in x.shape or x.shape[2:] > (4,):
        raise TypeError(
            f"an image is (height, width) or (height, width, 1 to 4) of uint8 or float32, and not {x.shape} of {x.dtype}"
        )
    return x, *x.shape[:2], x.shape[2] if x.ndim == 3 else 1


def _size(size):
    w, h = (int(extent) for extent in size)
    if w < 1 or h < 1:
        raise ValueError(f"a size is (width, height) of at least 1, and not {(w, h)}")
    return w, h


def _one_of(table, given, what):
    if given not in table:
        raise ValueError(f"{what} {given} is not one of {', '.join(table.values())}")
    return table[given]


def resize(src, dsize, fx=0.0, fy=0.0, interpolation=INTER_LINEAR):
    """To (width, height), or by factors where that is None. Nearest, linear, cubic or area."""
    x, height, width, channels = _image(src)
    if dsize is None:
        dsize = round(fx * width), round(fy * height)
    w, h = _size(dsize)
    method = _one_of(_METHODS, interpolation, "interpolation")
    data = _js.resize(x.data, x.dtype.name, height, width, channels, h, w, method)
    return Array(data, x.dtype, (h, w, *x.shape[2:]))


def _warped(src, matrix, dsize, flags, border, value):
    x, _, width, channels = _image(src)
    w, h = _size(dsize)
    if flags & ~WARP_INVERSE_MAP != INTER_LINEAR:
        raise ValueError("images are warped with INTER_LINEAR")
    if not flags & WARP_INVERSE_MAP:
        matrix = inv(matrix)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    values = json.dumps([float(one) for one in [*values, 0, 0, 0, 0][:4]])
    flat = json.dumps(reshape(matrix, (-1,)).tolist())
    kind = _one_of(_BORDERS, border, "border")
    data = _js.warp(x.data, x.dtype.name, width, channels, h, w, flat, kind, values)
    return Array(data, x.dtype, (h, w, *x.shape[2:]))


def warpAffine(src, M, dsize, flags=INTER_LINEAR, borderMode=BORDER_CONSTANT, borderValue=0):  # noqa: N802, N803
    """`M`: (2, 3), from places of the source to places of the result, or back with WARP_INVERSE_MAP."""
    matrix = of(M).astype(float)
    if matrix.shape != (2, 3):
        raise ValueError(f"M has shape (2, 3), and not {matrix.shape}")
    return _warped(src, concat([matrix, eye(1, 3, 2)]), dsize, flags, borderMode, borderValue)


def warpPerspective(src, M, dsize, flags=INTER_LINEAR, borderMode=BORDER_CONSTANT, borderValue=0):  # noqa: N802, N803
    """`M`: (3, 3), from places of the source to places of the result, or back with WARP_INVERSE_MAP."""
    matrix = of(M).astype(float)
    if matrix.shape != (3, 3):
        raise ValueError(f"M has shape (3, 3), and not {matrix.shape}")
    return _warped(src, matrix, dsize, flags, borderMode, borderValue)


def getRotationMatrix2D(center, angle, scale):  # noqa: N802
    """(2, 3): counter-clockwise, in degrees, about a place (x, y)."""
    a, b = scale * math.cos(math.radians(angle)), scale * math.sin(math.radians(angle))
    x, y = center
    return of([[a, b, (1 - a) * x - b * y], [-b, a, b * x + (1 - a) * y]], float)


def getGaussianKernel(ksize, sigma):  # noqa: N802
    """Weights of `ksize` places; a sigma of 0 follows from their number."""
    small = {1: [1], 3: [1, 2, 1], 5: [1, 4, 6, 4, 1], 7: [2, 7, 14, 18, 14, 7, 2], 9: [4, 13, 30, 51, 60, 51, 30, 13, 4]}
    if sigma <= 0 and ksize in small:
        weights = small[ksize]
    else:
        sigma = sigma if sigma > 0 else 0.3 * ((ksize - 1) * 0.5 - 1) + 0.8
        weights = [math.exp(-((i - (ksize - 1) / 2) ** 2) / (2 * sigma * sigma)) for i in range(ksize)]
    total = sum(weights)
    return reshape(of([weight / total for weight in weights], float), (ksize, 1))


def _in_256ths(weights):
    """What rounding leaves goes to the next, and to the one in the middle: OpenCV blurs uint8 so."""
    found, rest = [], 0.0
    for weight in weights[: len(weights) // 2]:
        exact = 256 * weight + rest
        found.append(round(exact))
        rest = exact - found[-1]
    return [one / 256 for one in (*found, 256 - 2 * sum(found), *found[::-1])]


def GaussianBlur(src, ksize, sigmaX, sigmaY=0, borderType=BORDER_DEFAULT):  # noqa: N802, N803
    """`ksize`: (width, height), odd, or 0 where it follows from sigma."""
    x, height, width, channels = _image(src)
    sigmas = sigmaX, sigmaY if sigmaY > 0 else sigmaX
    reach = 3 if x.dtype.name == "uint8" else 4
    sides = [side or round(sigma * reach * 2 + 1) | 1 for side, sigma in zip(ksize, sigmas, strict=True)]
    if any(side < 1 or side % 2 == 0 for side in sides):
        raise ValueError(f"ksize {tuple(ksize)} is not odd, or 0 with a sigma above 0")
    kind = _one_of(_BORDERS, borderType, "border")
    if kind == "wrap":
        raise ValueError("images are not blurred with BORDER_WRAP")
    kernels = [getGaussianKernel(side, sigma) for side, sigma in zip(sides, sigmas, strict=True)]
    weights = [reshape(kernel, (-1,)).tolist() for kernel in kernels]
    columns, rows = (json.dumps(_in_256ths(one) if x.dtype.name == "uint8" else one) for one in weights)
    data = _js.blur(x.data, x.dtype.name, height, width, channels, columns, rows, kind)
    return Array(data, x.dtype, x.shape)


def _rows(code, top, half):
    """How many channels a code takes, and for each channel it gives the weights of these and an offset."""
    unit = [[float(i == j) for j in range(4)] for i in range(4)]
    swapped = [unit[2], unit[1], unit[0], unit[3]]
    three, four = (lambda rows: [[*row[:3], 0.0] for row in rows[:3]]), (lambda rows: [[*row, 0.0] for row in rows])
    opaque = [0.0, 0.0, 0.0, top]
    simple = {
        0: (3, [*three(unit), opaque]), 1: (4, four(unit)[:3]), 2: (3, [*three(swapped), opaque]),
        3: (4, four(swapped)[:3]), 4: (3, three(swapped)), 5: (4, four(swapped)),
        6: (3, [[*_GRAY[::-1], 0.0]]), 7: (3, [[*_GRAY, 0.0]]), 8: (1, [[1.0, 0.0]] * 3),
        9: (1, [[1.0, 0.0]] * 3 + [[0.0, top]]), 10: (4, [[*_GRAY[::-1], 0.0, 0.0]]), 11: (4, [[*_GRAY, 0.0, 0.0]]),
    }  # fmt: skip
    if code in simple:
        return simple[code]
    red, blue = 0.713, 0.564
    to = [[*_GRAY, 0.0], [red * ((i == 0) - _GRAY[i]) for i in range(3)] + [half]]
    to.append([blue * ((i == 2) - _GRAY[i]) for i in range(3)] + [half])
    back = [[1.0, 1.403, 0.0, -1.403 * half], [1.0, -0.714, -0.344, (0.714 + 0.344) * half], [1.0, 0.0, 1.773, -1.773 * half]]
    return {
        36: (3, [[row[2], row[1], row[0], row[3]] for row in to]), 37: (3, to), 38: (3, back[::-1]), 39: (3, back),
    }.get(code)  # fmt: skip


def cvtColor(src, code):  # noqa: N802
    """From one order or kind of colours to another: the COLOR_ names that this module has."""
    x, height, width, channels = _image(src)
    top, half = (255.0, 128.0) if x.dtype.name == "uint8" else (1.0, 0.5)
    if code in (COLOR_BGR2HSV, COLOR_RGB2HSV):
        if channels != 3:
            raise ValueError(f"the image has {channels} channels, and this takes 3")
        x = cvtColor(x, COLOR_BGR2RGB) if code == COLOR_BGR2HSV else x
        return Array(_js.hsv(x.data, x.dtype.name), x.dtype, x.shape)
    found = _rows(code, top, half)
    if found is None:
        raise ValueError(f"code {code} is none of this module's COLOR_ names")
    wanted, rows = found
    if channels != wanted:
        raise ValueError(f"the image has {channels} channels, and this takes {wanted}")
    data = _js.mix(x.data, x.dtype.name, channels, json.dumps(rows))
    return Array(data, DTYPES[x.dtype.name], (height, width) if len(rows) == 1 else (height, width, len(rows)))
