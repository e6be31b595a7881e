"""A kernel of which only some workgroups do anything: who computes an element is seen by who has to run for it to come.

The launch stays as it is, grid and all, so that whatever a kernel makes of its workgroup's place means the same. Its
entry point begins with a question, whether this workgroup is to run, that is answered the same for all invocations of
a workgroup: barriers behind it stay allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapml.kernels.wgsl_tokens import is_name, tokens

CUT = "tapml_cut"
"""The array that says who runs: width and height of the grid in workgroups, a bit's number, its value."""

_GROUP = "tapml_group"
_SHARED = "tapml_shared_group"
_BUILTIN = ["@", "builtin", "(", "workgroup_id"]


def cut(wgsl: str, entry_point: str, binding: int) -> str | None:
    """The text with `CUT` at a binding: of the entry point's workgroups those run, counted along x, then y, then z,
    whose number has the bit of that value. None where the text is not understood."""
    found = tokens(wgsl)
    if found is None or CUT in wgsl or _GROUP in wgsl:
        return None
    texts = [token.text for token in found]
    start = next(
        (n for n in range(len(texts) - 2) if texts[n] == "fn" and texts[n + 1 : n + 3] == [entry_point, "("]), None
    )
    if start is None:
        return None
    opened = start + 2
    closed = _closing(texts, opened)
    if closed is None or closed + 1 >= len(texts) or texts[closed + 1] != "{":
        return None
    parameters = texts[opened + 1 : closed]
    own = asked = declared = ""
    if group := _name_behind(parameters):
        pass
    elif member := _member_of(parameters, texts):
        # Beside members that differ within a workgroup this one counts as if it did, and no barrier may follow.
        group, declared = _GROUP, f"\nvar<workgroup> {_SHARED} : vec3<u32>;"
        asked = f" {_SHARED} = {member}; let {_GROUP} = workgroupUniformLoad(&{_SHARED});"
    else:
        group = _GROUP
        own = f"@builtin(workgroup_id) {_GROUP} : vec3<u32>{',' if parameters else ''} "
    number = f"{group}.x + {CUT}[0] * ({group}.y + {CUT}[1] * {group}.z)"
    question = f" if (((({number}) >> {CUT}[2]) & 1u) != {CUT}[3]) {{ return; }}"
    after, body = found[opened].at + 1, found[closed + 1].at + 1
    declared += f"\n@group(0) @binding({binding}) var<storage, read> {CUT} : array<u32>;\n"
    return wgsl[:after] + own + wgsl[after:body] + asked + question + wgsl[body:] + declared


def _closing(texts: Sequence[str], opened: int) -> int | None:
    depth = 0
    for number in range(opened, len(texts)):
        depth += {"(": 1, ")": -1}.get(texts[number], 0)
        if depth == 0:
            return number
    return None


def _member_of(parameters: Sequence[str], texts: Sequence[str]) -> str:
    """How the entry point spells its workgroup's place where a member of a parameter is it; else empty."""
    for number, text in enumerate(texts[:-2]):
        if text == "struct" and texts[number + 2] == "{":
            members = texts[number + 3 : texts.index("}", number) if "}" in texts[number:] else len(texts)]
            member = _name_behind(members)
            holder = next(
                (
                    parameters[at - 2]
                    for at in range(2, len(parameters))
                    if parameters[at] == texts[number + 1] and parameters[at - 1] == ":"
                ),
                "",
            )
            if member and holder:
                return f"{holder}.{member}"
    return ""


def _name_behind(texts: Sequence[str]) -> str:
    """Of the parameter or member that is the workgroup's place."""
    for number in range(len(texts) - 6):
        if list(texts[number : number + 4]) == _BUILTIN:
            return next(
                (texts[at] for at in range(number + 4, len(texts) - 1) if texts[at + 1] == ":" and is_name(texts[at])),
                "",
            )
    return ""
