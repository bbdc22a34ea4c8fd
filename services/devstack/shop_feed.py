"""What the shop's page may read: one query, by a role that sees the shop and nothing else."""

import time

import jwt
import psycopg
from tidewire.cdc import Cdc, CdcSubscription

from services.devstack.credentials import Credentials
from services.devstack.shop import REVENUE

ROLE = "shop_page"
QUERY_ID = "shop_revenue"
TOKEN_S = 24 * 60 * 60
# The door clamps an ack to the newest offset.
NEWEST = 2**53 - 1


class NotifyFeed:
    """The query is registered in the database; the page holds a WebSocket."""

    def __init__(self, connection: psycopg.Connection) -> None:
        connection.execute("SELECT pgr.subscribe(%s::text, %s::text)", (QUERY_ID, REVENUE))
        self.paths = frozenset({f"/ws/{QUERY_ID}", f"/api/v1/q/{QUERY_ID}/result"})

    def described(self) -> dict[str, str]:
        return {"door": "notify", "query_id": QUERY_ID}


class CdcFeed:
    """The query is prepared; the page fetches it anew when a stream says that it may have changed."""

    def __init__(self, gateway: str, token: str) -> None:
        door = Cdc(gateway, token=token)
        self._query_id = door.prepare(REVENUE)
        self._subscription: CdcSubscription = door.subscribe_query(self._query_id)
        sub_id = self._subscription.sub_id
        self.paths = frozenset({f"/api/v1/cdc/sse/{sub_id}", f"/api/v1/q/{self._query_id}"})

    def described(self) -> dict[str, str]:
        """For a page that opens now: it needs nothing of what happened before."""
        self._subscription.ack(NEWEST)
        return {"door": "cdc", "query_id": self._query_id, "sub_id": self._subscription.sub_id}


Feed = NotifyFeed | CdcFeed


def open_feed(connection: psycopg.Connection, gateway: str, token: str) -> Feed:
    """By the NOTIFY door where its functions are in the database."""
    [found] = connection.execute("SELECT to_regproc('pgr.subscription_meta') IS NOT NULL").fetchone() or [False]
    return NotifyFeed(connection) if found else CdcFeed(gateway, token)


def grant(connection: psycopg.Connection) -> None:
    """A role without a password, which may read the shop."""
    connection.execute(
        f"DO $$ BEGIN IF to_regrole('{ROLE}') IS NULL THEN CREATE ROLE {ROLE} LOGIN; END IF; END $$;"
        f" GRANT USAGE ON SCHEMA shop TO {ROLE}; GRANT SELECT ON ALL TABLES IN SCHEMA shop TO {ROLE}"
    )


def page_token(credentials: Credentials) -> str:
    claims = {"sub": "shop page", "database_role": ROLE, "exp": int(time.time()) + TOKEN_S}
    return jwt.encode(claims, credentials.jwt_secret, algorithm="HS256")
