/**
 * Scripts of a task to bytecode, by the very Python that runs it: `tapml field publish` starts it in node. Standard input:
 * {"files": {PATH: SOURCE}, "own": [MODULE]}; standard output: {"files": {PATH: BASE64}} or {"error": SENTENCE}. Nothing is run of them.
 */
import { readFile } from "node:fs/promises";

const PYTHON = new URL("python/", import.meta.url);
const COMPILE = `
import ast, base64, json
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash


def imported(tree):
    """Top names and lines of what is imported, but for what a try is around."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((one.name.partition(".")[0], node.lineno) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0], node.lineno
        elif not isinstance(node, ast.Try):
            yield from imported(node)


def made(given, known):
    given = json.loads(given)
    there = {*json.loads(known)["modules"], *given["own"]}
    files = {}
    for path, text in sorted(given["files"].items()):
        try:
            source = base64.b64decode(text)
            tree = ast.parse(source, path)
            for name, line in imported(tree):
                if name not in there:
                    error = f"{path}:{line} imports {name}, which neither the version nor the Python of tasks has"
                    return json.dumps({"error": f"{error}: add it to the version, or do without it"})
            code = compile(source, f"/task/{path}", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return json.dumps({"error": f"{path} cannot be compiled ({error}): mend it"})
        files[path] = base64.b64encode(_code_to_hash_pyc(code, source_hash(source), False)).decode()
    return json.dumps({"files": files})


made
`;

const { loadPyodide } = await import(new URL("pyodide.mjs", PYTHON));
const pyodide = await loadPyodide({ env: { HOME: "/", PYTHONHASHSEED: "0" } });
const pieces = [];
for await (const piece of process.stdin) pieces.push(piece);
const known = await readFile(new URL("modules.json", PYTHON), "utf8");
process.stdout.write(pyodide.runPython(COMPILE)(Buffer.concat(pieces).toString(), known));
