"""Clients of several roles at one gateway, and what becomes of their subscribes."""

import os

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from proto.pgwire.live import Refused, Subscribe
from proto.topics import COMMANDS
from tests.fixtures.wire import WireClient
from tests.integration.gateway.harness import GatewayHarness, wait_until

P = f"p{os.getpid()}"
# `alone` can be no other role; `app` may become `reader` and `boss`, as a web application that drops its rights does.
ALONE, APP, READER, BOSS, TWIN = (f"{P}_{name}" for name in ("alone", "app", "reader", "boss", "twin"))
ROLES = f"""
CREATE ROLE {ALONE} LOGIN PASSWORD 'x';
CREATE ROLE {TWIN} LOGIN PASSWORD 'x';
CREATE ROLE {READER}; CREATE ROLE {BOSS};
CREATE ROLE {APP} LOGIN NOINHERIT PASSWORD 'x' IN ROLE {READER}, {BOSS};
"""
TABLES = f"""
CREATE TABLE shown (id int PRIMARY KEY, note text);
CREATE TABLE hidden (id int PRIMARY KEY, note text);
GRANT SELECT ON shown TO PUBLIC;
GRANT SELECT ON hidden TO {BOSS};
GRANT CREATE ON SCHEMA public TO {ALONE};
"""
SHOWN, HIDDEN = Subscribe("SELECT id FROM shown"), Subscribe("SELECT id, note FROM hidden")
SETTINGS = {"TIDEWIRE_GATEWAY_PROOF_WAIT_S": "1", "TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE": "false"}


class House(GatewayHarness):
    """A harness with one gateway for the whole module."""

    def __init__(self, dsn, kafka, prefix, redis_url, directory):
        super().__init__(dsn, kafka, prefix, redis_url, directory)
        self.door = self.gateway(**SETTINGS).wait_ready()

    def dsn_of(self, user=None, **parts):
        own = {} if user is None else {"user": user, "password": "x"}
        known = {**conninfo_to_dict(self.dsn), "host": "127.0.0.1", "port": self.door.port}
        return make_conninfo(**{**known, **own, **parts})

    def client(self, user=None, **parts):
        return WireClient(self.dsn_of(user, **parts))

    def owner(self, client, subscribe=SHOWN):
        """Whose the subscription is that this client has just asked for; the words if it was refused."""
        client.send(subscribe)
        return self.outcome(client)

    def outcome(self, client):
        def decided():
            self.commands += [COMMANDS.decode(one.value()) for one in self._commands.read(500, 0.02)]
            found = [one for one in self.commands if one.WhichOneof("body") == "subscribe"]
            if found:
                self.commands.remove(found[0])
                return found[0].subscribe.owner
            message = client.live(0.05)
            # What told of an earlier subscription's end is not about this one.
            if isinstance(message, Refused) and not message.message.startswith("Subscription ended"):
                return message.message
            return None

        return wait_until(decided, self.door.tail)


def role(outcome):
    """The role of an owner; words stay words."""
    return outcome if isinstance(outcome, str) else outcome.role
