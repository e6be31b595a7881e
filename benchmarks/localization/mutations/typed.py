"""What is done to values of some type: to a number, or to each of a vector's four."""

from __future__ import annotations

from collections.abc import Iterator


def clamped(value: str, kind: str, low: float, high: float) -> str:
    limits = [f"{limit:.6e}f" for limit in (low, high)]
    if kind != "f32":
        limits = [f"{kind}({limit})" for limit in limits]
    return f"clamp({value}, {', '.join(limits)})"


def converted(value: str, kind: str) -> Iterator[tuple[str, str]]:
    """(The value after a conversion to a narrower type and back, that in words); nothing of types that kernels do not
    store."""
    if kind == "f32":
        yield f"f32(i32({value}))", "value went through i32"
        yield f"unpack2x16float(pack2x16float(vec2<f32>({value}, 0.0))).x", "value went through f16"
        yield f"bitcast<f32>(bitcast<u32>({value}) & 4294901760u)", "value went through bfloat16"
    elif kind == "vec4<f32>":
        yield f"vec4<f32>(vec4<i32>({value}))", "value went through i32"
        halves = (f"unpack2x16float(pack2x16float(({value}).{two}))" for two in ("xy", "zw"))
        yield f"vec4<f32>({', '.join(halves)})", "value went through f16"
        text = f"bitcast<vec4<f32>>(bitcast<vec4<u32>>({value}) & vec4<u32>(4294901760u))"
        yield text, "value went through bfloat16"
    elif kind == "i32":
        yield f"({value} & 255i)", "value went through uint8"
        yield f"i32(f32({value}) * 0.00390625) * 256i", "value went through a coarse float"


def rounding(function: str, kind: str) -> str:
    """A function of a float, with one more that does the same to vectors where `kind` is one: its name has a 4."""
    if kind == "f32":
        return function
    each = ", ".join(f"narrowed(x.{member})" for member in "xyzw")
    return f"{function}\nfn narrowed4(x : vec4<f32>) -> vec4<f32> {{ return vec4<f32>({each}); }}\n"
