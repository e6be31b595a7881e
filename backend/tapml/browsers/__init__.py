"""Real browsers, found on this machine, started on a page and stopped without a trace."""

from tapml.browsers.find import Startable, startable
from tapml.browsers.process import BrowserProcess, launch

__all__ = ["BrowserProcess", "Startable", "launch", "startable"]
