"""A service in this process: start, address, stop."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urljoin

from tapml.errors import InputError
from tapml.field.service.application import create_app
from tapml.field.service.fleet_state import FleetState, milliseconds
from tapml.field.service.judging import Judging
from tapml.field.service.limits import Limiter, Limits
from tapml.field.service.proxies import behind_proxies
from tapml.field.service.redis_link import Counted, RedisLink
from tapml.field.service.simulator import Simulator, check_page
from tapml.field.service.traffic import Kept, traffic
from tapml.field.service.tunnel import PATH, TunnelServer
from tapml.field.signing import MANIFEST, verify
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.records import Records
from tapml.field.storage.samples import SampleStore
from tapml.field.storage.store import Store
from tapml.field.tasks.publish import published_path
from tapml.field.tasks.published import Published
from tapml.server.http_server import listen
from tapml.server.model_views import pages_folder

_ORIGIN = re.compile(r"https?://[^/\s?#@]+")


class FieldServer:
    """A context manager. Raises InputError where address, database or one of the others cannot be used."""

    def __init__(
        self,
        group: Path,
        database: str | Path,
        *,
        grants: str | None = None,
        origins: Sequence[str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        suites: Sequence[Path] = (),
        pages: Path | None = None,
        simulation_page: str | None = None,
        tunnel_port: int = 0,
        limits: Limits | None = None,
        proxies: int = 0,
        redis_url: str | None = None,
        watched_share: float = 1.0,
        records_database: str | Path | None = None,
    ) -> None:
        """`suites`: those that tasks' models were built from, by which captured calls are judged. `pages`: a folder of
        web pages, served at /pages/ with the runtime. `simulation_page`: what simulation steps open in browsers, an
        address or a path of this server's, which has to be there. `tunnel_port`: where the tunnel listens; 0 is any
        free one. `limits`: how often an address and a device may ask; without them there is no limit. `proxies`: how
        many stand before the service, whose `X-Forwarded-For` tells who asks. `redis_url`: what several processes of
        one database share limits and counts by, and tell each other of releases. `watched_share`: of devices, those
        whose reports count and of which is kept what they tell of themselves. `records_database`: of what comes
        through the tunnel, if not the same."""
        if not group.is_dir():
            raise InputError(f"{group} is no folder: make a group with `tapml field init`")
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise InputError(f"{origin} is no origin: give one as browsers name it, such as https://example.org")
        if grants is not None:
            verify(grants, MANIFEST, b"", b"")  # raises where it is no key
        samples, records = SampleStore(database), Records(records_database or database)
        self.state = FleetState(Store(database), FleetStore(database), samples, share=watched_share)
        self.judging = Judging(group / "judged", samples, suites)
        kept = Kept(records)
        self.link = self._linked(redis_url) if redis_url else None
        limiter = Limiter(limits, shared=self.link) if limits else None
        console_key = secrets.token_urlsafe(16)
        app = create_app(
            self.state, Published(published_path(group)), self.judging, grants=grants, origins=origins,
            local=_is_local(host), console_key=console_key, pages=pages_folder(pages) if pages else None,
            limiter=limiter, traffic=lambda: traffic(self._counted(), kept, self.link),
            tunnel_port=lambda: self.tunnel.port,
        )  # fmt: skip
        if proxies:
            app.wsgi_app = behind_proxies(app.wsgi_app, proxies)  # type: ignore[method-assign]
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = listen(host, port, app, None)
        shown = f"[{host}]" if ":" in host else host
        self.port = self._server.server_port
        self.url = f"http://{shown}:{self._server.server_port}"
        self.console = f"{self.url}/console/#{console_key}"
        """The console's address, with what opens it."""
        try:
            self.tunnel = TunnelServer(
                records, milliseconds, host=host, port=tunnel_port, origins=[*self._own_origins(host), *origins],
                limiter=limiter, proxies=proxies,
            )  # fmt: skip
        except InputError:
            self._server.server_close()
            raise
        self.tunnel_url = f"ws://{shown}:{self.tunnel.port}{PATH}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="field server", daemon=True)
        self._thread.start()
        if self.link is not None:
            self.link.start()
        self.state.start()
        self.judging.start()
        self.simulator: Simulator | None = None
        if simulation_page:
            address = urljoin(self.url, simulation_page)
            try:
                check_page(address)
            except InputError:
                self.stop()
                raise
            self.simulator = Simulator(self.state, address)
            self.simulator.start()

    def _own_origins(self, host: str) -> list[str]:
        """Of the pages that this service has, by each name that a machine has for itself."""
        names = ("127.0.0.1", "localhost", "[::1]") if _is_local(host) else ()
        return list(dict.fromkeys([self.url, *(f"http://{name}:{self.port}" for name in names)]))

    def stop(self) -> None:
        """Stop watching and listening. May be called twice."""
        if self.simulator is not None:
            self.simulator.stop()
        self.state.stop()
        self.judging.stop()
        self.tunnel.stop()
        if self.link is not None:
            self.link.stop()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _counted(self) -> Counted:
        return Counted({**self.state.counted, "bytes": self.tunnel.bytes}, {"connections": self.tunnel.open})

    def _linked(self, url: str) -> RedisLink:
        link = RedisLink(url, secrets.token_hex(8), self.state.heard, self._counted)
        self.state.announce, self.state.seen.asked = link.announce, link.asked
        self.state.processes = link.processes
        return link

    def __enter__(self) -> FieldServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
