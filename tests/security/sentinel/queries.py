"""Queries that try to see what they may not: from a seed, over all relations, allowed and forbidden."""

import random

# Relations by their columns; the first is a number.
RELATIONS = {
    "vault": ("id", "payload", "pin"),
    "mixed": ("id", "pub", "secret"),
    "guarded": ("id", "owner", "payload"),
    "stored": ("id", "shown", "payload"),
    "heap": ("id", "payload"),
    "opened": ("id", "note", "n"),
    "shown": ("id", "payload"),
    "invoked": ("id", "payload"),
    "own.t": ("id", "payload"),
    "own.peek": ("id", "payload"),
}
ELSEWHERE = (
    "SELECT query, usename FROM pg_stat_activity",
    "SELECT * FROM pg_stats",
    "SELECT most_common_vals::text, histogram_bounds::text FROM pg_stats WHERE schemaname = 'public'",
    "SELECT stavalues1::text FROM pg_statistic",
    "SELECT * FROM pg_stats_ext",
    "SELECT rolpassword FROM pg_authid",
    "SELECT content FROM _tidewire.marks",
    "SELECT * FROM _tidewire.capture",
    "SELECT query_to_xml('SELECT * FROM vault', true, true, '')",
    "SELECT table_to_xml('vault', true, true, '')",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT set_config('role', 'none', true), (SELECT payload FROM vault LIMIT 1)",
    "SELECT own.leak()",
    "SELECT own.raised()",
    "SELECT own.unset()",
    "SELECT own.raised() FROM opened",
    "SELECT ts_stat('SELECT to_tsvector(payload) FROM vault')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(payload) FROM vault')",
    "SELECT currval('own.none'), payload FROM vault",
    "WITH gone AS (DELETE FROM vault RETURNING *) SELECT * FROM gone",
    "SELECT * FROM vault FOR UPDATE",
    "SELECT payload INTO own.copy FROM vault",
    "SELECT (SELECT v FROM vault v LIMIT 1)",
    "SELECT * FROM pg_get_viewdef('shown'::regclass)",
    "SELECT * FROM ONLY vault TABLESAMPLE SYSTEM (100)",
    "SELECT lo_get(1), payload FROM vault",
    "SELECT * FROM pg_logical_slot_peek_changes('tidewire', NULL, NULL)",
)
FUNCTIONS = (
    "{c}",
    "{c}::text",
    "lower({c}::text)",
    "reverse({c}::text)",
    "length({c}::text)",
    "({c}::text)::int",
    "1 / (length({c}::text) - length({c}::text))",
    "('x' || {c}::text)::date",
    "({c}::text)::json",
    "({c}::text)::uuid",
    "coalesce({c}::text, 'none')",
    "convert_to({c}::text, 'UTF8')",
    "substr({c}::text, 1, 20)",
    "regexp_replace({c}::text, 'x', 'y')",
    "{a}::text",
    "row_to_json({a})",
    "to_jsonb({a})",
    "{a}",
    "CASE WHEN {c}::text > 'A' THEN {c}::text END",
)
CONDITIONS = (
    "true",
    "{c}::text LIKE '%'",
    "{c}::text > 'A'",
    "({c}::text)::int > 0",
    "1 / (length({c}::text) - length({c}::text)) > 0",
    "('x' || {c}::text)::date < '2030-01-01'",
    "{a}.id < 30",
    "{a}.id = 7",
    "{c} IS NOT NULL",
    "{a}::text <> ''",
    "EXISTS (SELECT FROM {other} o WHERE o.id = {a}.id)",
    "{c}::text IN (SELECT {other_column}::text FROM {other})",
    "NOT EXISTS (SELECT FROM {other} o WHERE ({other_column}::text)::int = {a}.id)",
)
AGGREGATES = (
    "count(*)",
    "min({c}::text)",
    "max({c}::text)",
    "string_agg({c}::text, ',')",
    "array_agg({c})",
    "json_agg({a})",
    "sum(length({c}::text))",
    "count(*) FILTER (WHERE {c}::text LIKE 'Q%')",
    "max(({c}::text)::int)",
    "bool_and({c}::text > 'A')",
)


class Queries:
    """An endless supply; the same seed gives the same queries."""

    def __init__(self, seed: int | str, *, allowed: tuple[str, ...] = ()) -> None:
        """`allowed` are relations that the role may read something of; they come more often than the others."""
        self._random, self._allowed = random.Random(seed), allowed

    def next(self) -> tuple[str, str | None]:
        """A query, and a filter over its result or None."""
        r = self._random
        if r.random() < 0.12:
            return r.choice(ELSEWHERE), None
        made = r.choice((self._plain, self._plain, self._grouped, self._joined, self._combined, self._nested))()
        return made, r.choice((None, None, None, "true", "payload LIKE '%'", "(payload)::int > 0", "id < 20"))

    def _relation(self) -> str:
        if self._allowed and self._random.random() < 0.75:
            return self._random.choice(self._allowed)
        return self._random.choice(tuple(RELATIONS))

    def _filled(self, template: str, relation: str, alias: str) -> str:
        other = self._relation()
        return template.format(
            a=alias,
            c=f"{alias}.{self._random.choice(RELATIONS[relation])}",
            other=other,
            other_column=self._random.choice(RELATIONS[other]),
        )

    def _one_of(self, templates: tuple[str, ...], relation: str, alias: str = "t") -> str:
        return self._filled(self._random.choice(templates), relation, alias)

    def _plain(self) -> str:
        r, relation = self._random, self._relation()
        columns = (
            "*"
            if r.random() < 0.25
            else ", ".join(f"{self._one_of(FUNCTIONS, relation)} AS x{n}" for n in range(r.randint(1, 3)))
        )
        order = r.choice(("", "", f" ORDER BY {self._one_of(FUNCTIONS[:5], relation)} LIMIT 5"))
        distinct = r.choice(("", "", "DISTINCT "))
        return f"SELECT {distinct}{columns} FROM {relation} t WHERE {self._one_of(CONDITIONS, relation)}{order}"

    def _grouped(self) -> str:
        r, relation = self._random, self._relation()
        aggregates = ", ".join(f"{self._one_of(AGGREGATES, relation)} AS x{n}" for n in range(r.randint(1, 2)))
        tail = f" WHERE {self._one_of(CONDITIONS, relation)}"
        if r.random() < 0.4:
            key = f"t.{r.choice(RELATIONS[relation])}"
            return f"SELECT {key} AS k, {aggregates} FROM {relation} t{tail} GROUP BY {key} HAVING count(*) > 0"
        return f"SELECT {aggregates} FROM {relation} t{tail}"

    def _joined(self) -> str:
        r, left, right = self._random, self._relation(), self._relation()
        kind = r.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
        columns = f"{self._one_of(FUNCTIONS, left)} AS x, {self._one_of(FUNCTIONS, right, 'u')} AS y"
        where = r.choice(("", f" WHERE {self._one_of(CONDITIONS, right, 'u')}"))
        return f"SELECT {columns} FROM {left} t {kind} {right} u ON t.id = u.id{where}"

    def _combined(self) -> str:
        r, left, right = self._random, self._relation(), self._relation()
        word = r.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
        one, two = (f"t.{r.choice(RELATIONS[each])}::text AS payload" for each in (left, right))
        return f"SELECT {one} FROM {left} t {word} SELECT {two} FROM {right} t"

    def _nested(self) -> str:
        r, relation, inner = self._random, self._relation(), self._relation()
        value = self._one_of(FUNCTIONS, inner, "i")
        return r.choice(
            (
                f"SELECT id, (SELECT {value} FROM {inner} i WHERE i.id = t.id LIMIT 1) AS x FROM {relation} t",
                f"WITH c AS MATERIALIZED (SELECT {value} AS x FROM {inner} i) SELECT * FROM c",
                f"SELECT t.id, l.x FROM {relation} t, LATERAL (SELECT {value} AS x FROM {inner} i LIMIT 1) l",
                f"SELECT t.id, first_value({value}) OVER (ORDER BY t.id) AS x FROM {relation} t, {inner} i",
                f"TABLE {inner}",
                f"VALUES ((SELECT min({value}::text) FROM {inner} i))",
                f"SELECT random() < 2 AS r, {value} AS x FROM {inner} i",
            )
        )
