"""The web application: pages, suites, blobs, jobs and the sockets that devices and pages talk through."""

from tapml.server.local import Server

__all__ = ["Server"]
