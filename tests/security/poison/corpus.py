"""Statements that are cheap to send and dear to serve, by what they are made to exhaust."""

import random
import string

DOUBLING = 26


def _nested(opening: str, inner: str, closing: str, levels: int) -> str:
    return opening * levels + inner + closing * levels


def _incompressible(size: int) -> str:
    return "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=size))


def doubling_ctes() -> str:
    steps = ", ".join(
        f"c{n} AS (SELECT a.id FROM c{n - 1} a JOIN c{n - 1} b ON a.id = b.id)" for n in range(1, DOUBLING + 1)
    )
    return f"WITH c0 AS (SELECT id FROM victims WHERE id < 3), {steps} SELECT count(*) FROM c{DOUBLING}"


# What PostgreSQL answers, or refuses, in its own time; we may do either.
DEPTH = {
    "sixty brackets": f"SELECT {_nested('(', 'id', ')', 60)} FROM victims",
    "a thousand brackets": f"SELECT {_nested('(', 'id', ')', 1000)} FROM victims",
    "calls of a type's name": f"SELECT {_nested('date(', 'd', ')', 35)} FROM victims",
    "arrays in arrays": f"SELECT {_nested('ARRAY[', 'id', ']', 6)} = {_nested('ARRAY[', '1', ']', 6)} FROM victims",
    "six hundred NOTs": f"SELECT id FROM victims WHERE {'NOT ' * 600} id > 5",
    "subqueries": f"SELECT {_nested('(SELECT ', 'id', ')', 80)} FROM victims",
    "doubling CTEs": doubling_ctes(),
}
WIDTH = {
    "a product of four": "SELECT count(*) FROM victims a, victims b, victims c, victims d WHERE a.id + b.id <> c.id",
    "four joined by equal keys": (
        "SELECT count(*) FROM victims a JOIN victims b ON a.same = b.same JOIN victims c ON b.same = c.same "
        "JOIN victims d ON c.same = d.same WHERE a.id + b.id + c.id <> d.id"
    ),
    "a sum of a thousand": f"SELECT {' + '.join(['id'] * 1000)} FROM victims",
    "a list of five thousand": f"SELECT id FROM victims WHERE id IN ({', '.join(map(str, range(5000)))})",
}
SIZE = {"700 kB that do not compress": f"SELECT id FROM victims WHERE t <> '{_incompressible(700_000)}'"}
TIME = {
    "wildcards": "SELECT id FROM victims WHERE t LIKE '%a%a%a%a%a%a%a%b'",
    "wildcards that only the data show": "SELECT a.id FROM victims a JOIN patterns p ON a.t LIKE p.pattern",
}
MEMORY = {
    "a text repeated": "SELECT repeat(t, 200000) FROM victims",
    "texts replaced again and again": (
        "SELECT replace(replace(replace(replace(replace(t, 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), "
        "'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa') FROM victims WHERE id = 1"
    ),
    "a row that no broker takes": "SELECT id, wide FROM wide",
}
ENCODING = {
    "a zero character": "SELECT id FROM victims WHERE t = U&'\\0000'",
    "half a surrogate": "SELECT id FROM victims WHERE t = U&'\\D800'",
}
CORPUS = {
    f"{kind}: {name}": sql
    for kind, statements in (
        ("depth", DEPTH),
        ("width", WIDTH),
        ("size", SIZE),
        ("time", TIME),
        ("memory", MEMORY),
        ("encoding", ENCODING),
    )
    for name, sql in statements.items()
}
