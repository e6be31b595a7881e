"""One process that reads fuzzed documents: cases come by standard input, what became of them goes out."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

MOST_MEGABYTES = 512.0
_ADDRESS_SPACE = 3 << 30


class Worker:
    """`good`: what good.make filled; `root`: an empty folder for everything this process may write."""

    def __init__(self, good: Path, root: Path, kept: Path) -> None:
        for name in ("home", "cwd", "outside", "out", "tmp"):
            (root / name).mkdir(parents=True)
        self._own = {"HOME": "home", "TMPDIR": "tmp", "TAPML_DATA": "out/data"}
        os.environ.update({name: str(root / folder) for name, folder in self._own.items()})
        os.chdir(root / "cwd")
        self.root, self.good, self.kept = root, good, kept
        self.suite = root / "suite" / "good.suite"

        import benchmarks.hostile.good  # noqa: F401  (makes the tests' helpers importable)
        from benchmarks.hostile import files, network, suites
        from benchmarks.hostile.case import Case
        from benchmarks.hostile.checks import Checks
        from benchmarks.hostile.mutate import SECRET
        from benchmarks.hostile.watch import Memory, Watch, snapshot

        self._case, self._snapshot, self._secret = Case, snapshot, SECRET
        self._formats = suites.READERS | files.READERS | network.READERS
        self.checks = Checks(good, root / "out")
        self._canary()
        shutil.copytree(good / "good.suite", self.suite)
        self._pristine = snapshot(self.suite)
        self._root_names = self._names()
        checkout = Path(__file__).parents[2]
        readable = [
            Path(sys.prefix),
            Path(sys.base_prefix),
            *map(Path, sys.path),
            checkout / "backend",
            checkout / "tests",
            checkout / "benchmarks",
            checkout / ".venv",
            good,
            Path("/proc/self"),
            Path(f"/proc/{os.getpid()}"),
            Path("/usr/lib"),
            Path("/usr/share/zoneinfo"),
            Path("/etc/localtime"),
            Path("/etc/mime.types"),
            Path("/dev/urandom"),
        ]
        readable = [path for path in readable if str(path)]
        self.watch = Watch([self.suite, root / "out", root / "tmp"], readable, network.PORTS)
        self._log = _Log()
        logging.getLogger().addHandler(self._log)
        warnings.simplefilter("ignore")
        self._warm_up()
        self.memory = Memory()
        limit = _ADDRESS_SPACE + int(Memory._read("VmSize") * 1000 * 1000)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def _canary(self) -> None:
        outside = self.root / "outside"
        shutil.rmtree(outside, ignore_errors=True)
        outside.mkdir(exist_ok=True)
        (outside / "secret.txt").write_text(self._secret)
        (outside / "folder").mkdir()
        self._around = {name: self._snapshot(self.root / name) for name in ("home", "cwd", "outside")}

    def _warm_up(self) -> None:
        """Everything is loaded by good documents, before the first bad one counts. Raises what they raise."""
        case = self._case("warm", self.suite, self.checks, self.root / "outside")
        everything = tuple(name for name, _ in self.checks.actions(self.suite, case.choose) if name != "open")
        for _ in range(2):
            self.checks.suite(self.suite, case.outcome, case.choose, everything)
            self.checks.routes(case.outcome, case.choose, 11)
            for name in ("one.html", "one.safetensors", "script.py", "folder"):
                self.checks.exported(self.good / "exports" / name, self.suite, case.outcome, case.choose)
            for name in ("inputs.npz", "packed.npz", "x.npy"):
                self.checks.inputs(self.good / name, case.outcome)
            self.checks.baseline(self.good / "baseline.json", case.outcome)
            self._restore()
        found = case.outcome.tracebacks + case.outcome.errors_500
        if found or self._log.found:
            raise SystemExit("\n".join(["good documents fail:", *found, *self._log.found]))

    def run(self, name: str, seed: int) -> dict[str, Any]:
        """One case, and everything as it was before."""
        case = self._case(f"{name} {seed}", self.suite, self.checks, self.root / "outside")
        self.memory.begin()
        self._log.found.clear()
        began, used = time.monotonic(), time.process_time()
        broken = ""
        self.watch.begin()
        try:
            self._formats[name](_Watched(case, self.watch))
        except Exception:
            broken = traceback.format_exc()
        outcome = case.outcome
        found: dict[str, Any] = {
            "format": name,
            "seed": seed,
            "refused": outcome.refused > 0,
            "actions": outcome.refused + outcome.accepted,
            "tracebacks": outcome.tracebacks + self._log.found + ([f"harness: {broken}"] if broken else []),
            "500s": outcome.errors_500,
            "escapes": sorted(set(self.watch.outside + self.watch.ran)) + self._touched(),
            "MB": round(self.memory.growth(), 1),
            "seconds": round(time.process_time() - used, 3),
            "waited": round(time.monotonic() - began, 3),
        }
        if any(self._secret in said for said in outcome.said) or self._leaked():
            found["escapes"].append("the secret's text came out")
        if bad(found):
            found["kept"] = str(self._keep(found))
        self._restore()
        return found

    def _touched(self) -> list[str]:
        found = []
        for name, before in self._around.items():
            now = self._snapshot(self.root / name)
            if now != before:
                changed = sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
                changed = [path for path in changed if not path.startswith("moved") and path != "copy.txt"]
                found += [f"{name}/{path} was touched" for path in changed]
        if (names := self._names()) != self._root_names:
            found.append(f"the folder around is {names}")
        return found

    def _names(self) -> list[str]:
        """Beside the suite and around it."""
        return sorted(path.name for folder in (self.root, self.suite.parent) for path in folder.iterdir())

    def _leaked(self) -> bool:
        """Into what was written."""
        secret = self._secret.encode()
        for folder in (self.suite, self.root / "out"):
            for path, (mode, *_) in self._snapshot(folder).items():
                if not isinstance(mode, int) or mode & 0o170000 != 0o100000:
                    continue
                file = folder / path
                if file.stat().st_size < 5_000_000 and secret in file.read_bytes():
                    return True
        return False

    def _keep(self, found: dict[str, Any]) -> Path:
        place = self.kept / f"{found['format'].replace('/', '-').replace('*', '_').replace(' ', '-')}-{found['seed']}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "found.json").write_text(json.dumps(found, indent=1))
        (place / "found.txt").write_text("\n\n".join([*found["tracebacks"], *found["500s"], *found["escapes"]]))
        for path, now in self._snapshot(self.suite).items():
            if now != self._pristine.get(path) and now[0] != "folder":
                target = place / "suite" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                file = self.suite / path
                if file.is_symlink():
                    target.symlink_to(file.readlink())
                elif file.is_file() and file.stat().st_size < 50_000_000:
                    shutil.copy2(file, target)
        return place

    def _restore(self) -> None:
        """The suite as it was: only what differs is copied again."""
        if self._snapshot(self.root / "outside") != self._around["outside"] or any(
            self._snapshot(self.root / name) for name in ("home", "cwd")
        ):
            for name in ("home", "cwd"):
                _empty(self.root / name)
            self._canary()
        now = self._snapshot(self.suite)
        for path in sorted(now.keys() | self._pristine.keys()):
            if now.get(path) == self._pristine.get(path):
                continue
            place = self.suite / path
            if place.is_dir() and not place.is_symlink() and self._pristine.get(path, ("",))[0] != "folder":
                shutil.rmtree(place)
            elif place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            if path in self._pristine:
                source = self.good / "good.suite" / path
                if source.is_dir():
                    place.mkdir(exist_ok=True)
                else:
                    shutil.copy2(source, place)
        self._pristine = self._snapshot(self.suite)
        for entry in (self.root / "out").iterdir():
            _remove(entry)


class _Watched:
    """A case that is watched while it is read, and not while it is made."""

    def __init__(self, case: Any, watch: Any) -> None:
        self._inner, self._watch = case, watch
        self.checks = _Watching(case.checks, watch)
        self.read_suite = watch.while_active(case.read_suite)
        self.watched = watch.while_active(case.watched)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Watching:
    def __init__(self, checks: Any, watch: Any) -> None:
        self._checks, self._watch = checks, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._checks, name)
        return self._watch.while_active(found) if callable(found) else found


class _Log(logging.Handler):
    """Tracebacks that went to a log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.name != "tapml":
            self.found.append("".join(traceback.format_exception(*record.exc_info)))


def bad(found: dict[str, Any]) -> bool:
    """Whether a case broke what is promised."""
    return bool(
        found["tracebacks"] or found["500s"] or found["escapes"] or found["MB"] > MOST_MEGABYTES or found.get("hang")
    )


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def main() -> None:
    good, root, kept = map(Path, sys.argv[1:4])
    # What a check prints is nobody's; answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker(good, root, kept)
    answers.write("ready\n")
    for line in sys.stdin:
        name, seed = json.loads(line)
        answers.write(json.dumps(worker.run(name, seed)) + "\n")


if __name__ == "__main__":
    main()
