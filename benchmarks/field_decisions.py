"""How many profiles a second one core reads and answers (`make bench-field`).

Headers as they come: text in, answer out. Catalogues of 1, 20 and 348 tasks (as many as are active at once in the
seed's fleet), each with a full release and a gray one above it; ten policies. Target: 20,000 a second of CPU time with
20 tasks. Prints one JSON line a measurement; exits with 1 where the target is missed.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from benchmarks.measured import exit_code, report
from tapml.field.decisions import Catalogue
from tapml.field.profiles import parse_profile
from tapml.field.releases import Plan, Release

PROFILES = 20_000
_MANIFEST = "0" * 64


def policy(number: int) -> dict[str, Any]:
    """Ten different ones, of three conditions."""
    conditions = {
        "app": {"at_least": f"1.{number % 10}"},
        "browser": {"one_of": ["chromium", "firefox"]},
        "attributes.age": {"at_least": 18},
    }
    return {"groups": [conditions]}


def releases(tasks: int) -> list[Release]:
    found = []
    for number in range(tasks):
        for version, steps in (("1.0", [{"kind": "full"}]), ("1.1", [{"kind": "gray", "share": 0.1}])):
            plan = Plan.model_validate(
                {
                    "task": f"scenario/task-{number}", "version": version, "manifest": _MANIFEST,
                    "policy": policy(number), "steps": steps,
                }
            )  # fmt: skip
            found.append(Release(len(found), plan))
    return found


def headers(tasks: int) -> list[str]:
    luck = random.Random(7)
    return [
        json.dumps(
            {
                "device": f"{luck.getrandbits(128):032x}",
                "app": f"1.{luck.randrange(12)}.{luck.randrange(3)}",
                "browser": {
                    "name": luck.choice(["chromium", "firefox", "safari"]),
                    "version": luck.randrange(140, 160),
                },
                "gpu": {"vendor": luck.choice(["intel", "arm", "apple"]), "architecture": "gen-12lp"},
                "speed": luck.uniform(1, 1000),
                "attributes": {"age": luck.randrange(12, 90), "habit": luck.choice(["day", "night"])},
                "holds": {f"scenario/task-{luck.randrange(tasks)}": "1.0" for _ in range(min(tasks, 8))},
            }
        )
        for _ in range(PROFILES)
    ]


def main() -> int:
    for tasks, target in ((1, None), (20, 20_000), (348, None)):
        catalogue, asked = Catalogue(releases(tasks)), headers(tasks)
        spent = []
        for _ in range(3):
            began = time.process_time()
            for header in asked:
                catalogue.answer(parse_profile(header))
            spent.append(time.process_time() - began)
        rate = PROFILES / min(spent)
        report(f"profiles answered, {tasks} tasks", rate, "per CPU second", target, at_least=True)
    return exit_code()


if __name__ == "__main__":
    sys.exit(main())
