"""The row of a filter_eval vector as a relation, and what PostgreSQL says of it."""

from itertools import product

import psycopg

# What a NULL may be of; the first with which PostgreSQL takes the filter.
OF_NULL = ("text", "integer", "timestamptz", "boolean")
TYPES = {bool: "boolean", int: "integer", float: "numeric", str: "text"}


def relation_of(connection, vector):
    """VALUES of one row, as it stands in a FROM."""
    candidates = [OF_NULL if value is None else (TYPES[type(value)],) for value in vector["row"]]
    for types in product(*candidates):
        relation = _written(connection, vector, types)
        try:
            answer(connection, relation, vector["filter"])
        except (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidTextRepresentation):
            continue
        return relation
    raise AssertionError(f"{vector['filter']!r} can be applied to no types of {vector['columns']}")


def answer(connection, relation, filter):
    """Whether PostgreSQL keeps the row."""
    return bool(connection.execute(f"SELECT * FROM (SELECT * FROM {relation}) AS result WHERE ({filter}\n)").fetchall())


def _written(connection, vector, types):
    cursor = psycopg.ClientCursor(connection)
    values = [f"{cursor.mogrify('%s', [value])}::{type_}" for value, type_ in zip(vector["row"], types, strict=True)]
    names = ", ".join(f'"{name}"' for name in vector["columns"])
    return f"(VALUES ({', '.join(values)})) AS given ({names})"
