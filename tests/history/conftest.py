"""The history's databases: a file, and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sql

from postgres_cluster import Postgres
from tapml.history import History, open_history
from tapml.suite import Suite


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite3'}"
    cluster: Postgres = request.getfixturevalue("postgres")
    return cluster.database()


@pytest.fixture
def history(suite: Suite, url: str) -> History:
    return open_history(suite, url)


@pytest.fixture
def execute(url: str) -> Callable[[str], None]:
    """Changes the database behind tapml's back."""

    def run(text: str) -> None:
        address = url.replace("postgresql://", "postgresql+psycopg://")
        engine = sql.create_engine(address, poolclass=sql.NullPool)
        with engine.begin() as connection:
            connection.execute(sql.text(text))

    return run
