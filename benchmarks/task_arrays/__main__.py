from __future__ import annotations

import argparse
import dataclasses

from benchmarks.task_arrays.held import hold, hold_assignment, hold_indexing, hold_picture, names_of_codes
from benchmarks.task_arrays.numbers import number_cases
from benchmarks.task_arrays.pictures import picture_cases
from benchmarks.task_arrays.places import place_cases
from benchmarks.task_arrays.products import product_cases
from benchmarks.task_arrays.vm import Refused, Vm, started


def pictures(vm: Vm, examples: int, only: str | None) -> int:
    """How many have a case that does not pass."""
    passed = failed = 0
    names, widest = set(), 0.0
    for picture in picture_cases(names_of_codes(vm)):
        name = picture.name.partition(",")[0]
        if only not in (None, name):
            continue
        names.add(name)
        try:
            count, worst = hold_picture(vm, picture, examples)
            passed, widest = passed + count, max(widest, worst)
        except (AssertionError, Refused) as error:
            failed += 1
            print(f"{picture.name}: {error}\n  {' '.join(getattr(error, '__notes__', []))[:1500]}")
    print(
        f"images: {len(names)} functions, {passed:,} cases passed, at most {widest:g} of 255 apart, {failed} kinds not"
    )
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="tasks' arrays held against NumPy")
    parser.add_argument("--examples", type=int, default=100, help="cases of each function")
    parser.add_argument("--only", help="one function")
    parser.add_argument("--gpu", action="store_true", help="all that may is computed on a GPU, by Dawn in node")
    options = parser.parse_args()
    cases = {**number_cases(), **product_cases(), **place_cases()}
    if options.gpu:  # WGSL's exp is as far from the exact one as docs/field.md says
        cases["exp"] = dataclasses.replace(cases["exp"], relative=3e-5)
    functions = passed = failed = 0
    with started(*(["gpu", "0"] if options.gpu else [])) as vm:
        jobs = {
            name: (lambda name=name, case=case: hold(vm, name, case, options.examples)) for name, case in cases.items()
        }
        jobs["x[key]"] = lambda: hold_indexing(vm, options.examples)
        jobs["x[key] = value"] = lambda: hold_assignment(vm, options.examples)
        for name, job in jobs.items():
            if options.only not in (None, name):
                continue
            functions += 1
            try:
                passed += job()
            except (AssertionError, Refused) as error:
                failed += 1
                print(f"{name}: {error}\n  {' '.join(getattr(error, '__notes__', []))[:1500]}")
        print(f"arrays: {functions} functions, {passed:,} cases passed, {failed} functions with one that does not")
        failed += pictures(vm, options.examples, options.only)
        if options.gpu:
            print("the GPU answered {answered:,} calls, and failed {failed}".format(**vm.counts()))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
