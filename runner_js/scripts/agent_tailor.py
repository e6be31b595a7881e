"""Run inside Pyodide (agent_python.mjs): the part of the standard library that tasks have, as bytecode.

Kept is what Pyodide itself imports, KEPT, and what these import; the rest of the archive is left out.
"""

import importlib
import json
import sys
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash

KEPT = [
    "abc",
    "array",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "collections.abc",
    "contextlib",
    "contextvars",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "graphlib",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "html.entities",
    "inspect",
    "io",
    "itertools",
    "json",
    "keyword",
    "locale",
    "logging",
    "math",
    "numbers",
    "operator",
    "os",
    "pathlib",
    "pprint",
    "queue",
    "random",
    "re",
    "reprlib",
    "secrets",
    "shutil",
    "statistics",
    "string",
    "struct",
    "tempfile",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
    "uuid",
    "warnings",
    "weakref",
    "zipfile",
    "zlib",
    "asyncio",
    "compression.zstd",
]
# Imported by functions of the kept ones when they are called.
LATER = [
    "_strptime",
    "encodings.ascii",
    "encodings.latin_1",
    "encodings.utf_16",
    "encodings.utf_16_le",
    "encodings.utf_8_sig",
    "encodings.cp437",
    "encodings.idna",
    "stringprep",
    "_pydatetime",
]

ARCHIVE = "/lib/python314.zip"


def compiled(source, name):
    code = compile(source, name, "exec", dont_inherit=True, optimize=2)
    return bytes(_code_to_hash_pyc(code, source_hash(source), False))


def tailor(own):
    """Writes /tailored.zip; `own`: sources of further modules, by path. Gives what is in it."""
    for name in [*KEPT, *LATER]:
        importlib.import_module(name)
    names = sorted(name for name in sys.modules if name != "__main__")
    with (
        zipfile.ZipFile(ARCHIVE) as archive,
        zipfile.ZipFile("/tailored.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made,
    ):
        there, taken = set(archive.namelist()), set()

        def add(path, source):
            info = zipfile.ZipInfo(path + "c", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(info, compiled(source, path))

        for name in names:
            base = name.replace(".", "/")
            for path in (f"{base}/__init__.py", f"{base}.py"):
                if path in there and path not in taken:
                    taken.add(path)
                    add(path, archive.read(path))
        for path, source in sorted(own.items()):
            add(path, source.encode())
        before = len(there)
    # What a task may import: its own files come on top.
    public = {name.partition(".")[0] for name in [*KEPT, "tapml"]}
    return json.dumps({"modules": sorted(public | {"sys", "__future__"}), "kept": len(taken), "before": before})
