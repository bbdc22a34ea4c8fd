"""A database in which every value that some role may not see is a sentinel, and a writer that keeps it changing."""

import random
import threading

import psycopg
from msgspec import Struct

SENTINEL = "QZSENTINELQZ7391"
PIN = 77001177001177
# As they are, and as functions that a query may use would turn them.
FORBIDDEN = tuple(
    value.encode()
    for value in (SENTINEL, SENTINEL.lower(), SENTINEL[::-1], SENTINEL.encode().hex(), str(PIN), str(-PIN))
)

TABLES = """
    CREATE TABLE vault (id int PRIMARY KEY, payload text, pin bigint);
    CREATE TABLE mixed (id int PRIMARY KEY, pub text, secret text);
    CREATE TABLE guarded (id int PRIMARY KEY, owner name, payload text);
    CREATE TABLE stored (id int PRIMARY KEY, shown boolean, payload text);
    CREATE TABLE heap (id int, payload text);
    CREATE TABLE opened (id int PRIMARY KEY, note text, n int);
    ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON guarded USING (owner = current_user);
    CREATE VIEW shown WITH (security_barrier) AS SELECT id, payload FROM stored WHERE shown;
    CREATE VIEW invoked WITH (security_invoker) AS SELECT id, payload FROM vault;
    CREATE VIEW leaky AS SELECT id, payload, pin FROM vault;
    INSERT INTO vault SELECT n, '{s} ' || n, {p} FROM generate_series(1, 40) n;
    INSERT INTO mixed SELECT n, 'public ' || n, '{s} ' || n FROM generate_series(1, 40) n;
    INSERT INTO stored SELECT n, n % 2 = 0, CASE WHEN n % 2 = 0 THEN 'shown ' || n ELSE '{s}' END
    FROM generate_series(1, 40) n;
    INSERT INTO heap SELECT n, '{s}' FROM generate_series(1, 20) n;
    INSERT INTO opened SELECT n, 'note ' || n, n FROM generate_series(1, 40) n;
"""
OWNED = """
    SET ROLE {owner};
    CREATE TABLE own.t (id int PRIMARY KEY, payload text);
    INSERT INTO own.t SELECT n, 'mine ' || n FROM generate_series(1, 10) n;
    CREATE VIEW own.peek AS SELECT id, payload FROM public.vault;
    CREATE FUNCTION own.leak() RETURNS text STABLE LANGUAGE sql AS 'SELECT payload FROM public.vault LIMIT 1';
    CREATE FUNCTION own.raised() RETURNS text STABLE LANGUAGE plpgsql SECURITY DEFINER AS
        $$ BEGIN RAISE EXCEPTION '%', (SELECT payload FROM public.vault LIMIT 1); END $$;
    CREATE FUNCTION own.unset() RETURNS text STABLE LANGUAGE plpgsql AS
        $$ BEGIN PERFORM set_config('role', 'none', true); RETURN (SELECT payload FROM public.vault LIMIT 1); END $$;
    RESET ROLE;
"""


class Roles(Struct, frozen=True):
    """Logins by what they may do; each has its name as password."""

    nobody: str
    owner: str
    member: str
    group: str
    columns: str
    viewer: str
    reader: str

    def allowed(self, role: str) -> tuple[str, ...]:
        """Relations of which a weak role may read some rows or columns."""
        return {
            self.owner: ("own.t", "guarded", "opened"),
            self.member: ("guarded", "opened"),
            self.columns: ("mixed", "opened"),
            self.viewer: ("shown", "opened"),
        }.get(role, ())

    @property
    def weak(self) -> tuple[str, ...]:
        return (self.nobody, self.owner, self.member, self.columns, self.viewer)


def build(connection: psycopg.Connection, suffix: str) -> Roles:
    roles = Roles(*(f"{name}_{suffix}" for name in Roles.__struct_fields__))
    for name in Roles.__struct_fields__:
        role = getattr(roles, name)
        connection.execute(f"CREATE ROLE {role} {'NOLOGIN' if name == 'group' else 'LOGIN'} PASSWORD '{role}'")
    connection.execute(TABLES.format(s=SENTINEL, p=PIN))
    connection.execute(f"CREATE SCHEMA own AUTHORIZATION {roles.owner}")
    connection.execute(OWNED.format(owner=roles.owner))
    connection.execute(
        f"""
        GRANT {roles.group} TO {roles.member};
        GRANT SELECT ON opened TO {roles.group}, {roles.columns}, {roles.viewer}, {roles.owner};
        GRANT SELECT ON guarded TO {roles.group}, {roles.owner};
        GRANT SELECT (id, pub) ON mixed TO {roles.columns};
        GRANT SELECT ON shown, invoked TO {roles.viewer};
        ALTER ROLE {roles.reader} BYPASSRLS;
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO {roles.reader};
        """
    )
    for number, role in enumerate(roles.weak * 8):
        # Every second row of a role is out of its sight, and holds a sentinel.
        owner, payload = (role, "in sight") if number % 2 else ("somebody", SENTINEL)
        connection.execute("INSERT INTO guarded VALUES (%s, %s, %s)", [number, owner, payload])
    connection.execute("ANALYZE")
    return roles


def remove(connection: psycopg.Connection, roles: Roles) -> None:
    for name in Roles.__struct_fields__:
        connection.execute(f"DROP OWNED BY {getattr(roles, name)} CASCADE")
    for name in Roles.__struct_fields__:
        connection.execute(f"DROP ROLE {getattr(roles, name)}")


class Writer:
    """Changes what may be seen and what may not, row by row, and moves rows in and out of sight."""

    def __init__(self, dsn: str, roles: Roles, seed: int) -> None:
        self._dsn, self._roles, self._random = dsn, roles, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.commits = 0

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._over.wait(0.02):
                with connection.transaction():
                    for _ in range(self._random.randint(1, 3)):
                        connection.execute(self._statement())
                self.commits += 1

    def _statement(self) -> str:
        r, number = self._random, self._random.randint(1, 39)
        role = r.choice(self._roles.weak)
        secret = f"'{SENTINEL} {r.randint(1, 999)}'"
        return r.choice(
            (
                f"UPDATE vault SET payload = {secret} WHERE id = {number}",
                f"DELETE FROM vault WHERE id = {number}",
                f"INSERT INTO vault VALUES ({number}, {secret}, {PIN}) ON CONFLICT (id) DO UPDATE SET pin = -{PIN}",
                f"UPDATE mixed SET secret = {secret}, pub = 'public {r.randint(1, 999)}' WHERE id = {number}",
                f"UPDATE guarded SET owner = 'somebody', payload = {secret} WHERE id = {number}",
                f"UPDATE guarded SET owner = '{role}', payload = 'in sight {r.randint(1, 999)}' WHERE id = {number}",
                f"UPDATE stored SET shown = NOT shown, payload = CASE WHEN shown THEN {secret} ELSE 'shown' END "
                f"WHERE id = {number}",
                f"UPDATE heap SET payload = {secret} WHERE id = {number}",
                f"UPDATE opened SET note = 'note {r.randint(1, 999)}', n = n + 1 WHERE id = {number}",
                f"UPDATE own.t SET payload = 'mine {r.randint(1, 999)}' WHERE id = {number % 10}",
            )
        )
