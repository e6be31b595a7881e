"""The VM's own side of a run."""

import importlib
import inspect
import json
import sys
import traceback

_MOST = 8000


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
