"""How much of its bound the worst element of a recorded result takes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.history.schema import bound_shares, results
from tapml.protocol.base import JsonNumber
from tapml.results.headline import as_json


def with_bound_share(query: sql.Select[Any], connection: Connection) -> sql.Select[Any]:
    """A query of results with one column more, its last: null too for what tapml recorded before it kept them."""
    if not sql.inspect(connection).has_table(bound_shares.name):
        return query.add_columns(sql.null().label("bound_share"))
    same = [bound_shares.c[key] == results.c[key] for key in ("series", "at", "device")]
    return query.add_columns(bound_shares.c.bound_share).outerjoin(bound_shares, sql.and_(*same))


def checked(share: object) -> JsonNumber | None:
    """As a document tells it. Raises ValueError for what no tapml recorded."""
    if share is None:
        return None
    if not isinstance(share, int | float) or not share >= 0:
        raise ValueError("its column bound_share holds what tapml did not write")
    return as_json(float(share))
