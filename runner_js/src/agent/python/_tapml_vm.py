"""The VM's own side of a run."""

import importlib
import inspect
import json
import os
import sys
import traceback
import zipimport

_MOST = 8000
_PACKAGES = "/packages"


def install(path):
    """A wheel's files go where modules are looked for."""
    wheel = zipimport.zipimporter(path)
    for name in wheel._get_files():
        if name.endswith("/"):
            continue
        target = os.path.normpath(os.path.join(_PACKAGES, name))
        if not target.startswith(f"{_PACKAGES}/"):
            raise ValueError(f"{path} has a file {name}")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(wheel.get_data(name))
    os.remove(path)
    if _PACKAGES not in sys.path:
        sys.path.append(_PACKAGES)


def prepare(main):
    """The function that runs a task: of an event's JSON, its outcome's."""
    sys.path.insert(0, "/task")
    module = importlib.import_module(main)
    if not callable(getattr(module, "run", None)):
        raise TypeError(f"{main} has no function run(event)")

    async def run(event):
        try:
            result = module.run(json.loads(event))
            if inspect.isawaitable(result):
                result = await result
            return json.dumps({"result": result}, allow_nan=False)
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            return json.dumps({"error": told(error), "interrupted": interrupted})

    return run


def told(error):
    """Its traceback, from the task's own lines on."""
    at = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, at and at.tb_next))[-_MOST:]


def prepared(main):
    """`prepare`; what it raises is given as text."""
    try:
        return prepare(main), None
    except BaseException as error:
        return None, told(error)
