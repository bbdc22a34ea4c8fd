"""Strategies for sequences of SQL commands that make, bend, fill and drop tables of every kind."""

from hypothesis import strategies as st

NAMES = ("t0", "t1", '"Tä ""x"', "other.t0")
PARENTS = ("p0", "p1")
COLUMNS = ("a", "b", "c")


def commands(version: int) -> st.SearchStrategy[list[str]]:
    """Tables, up to twenty changes, and after each a write to every table; some transactions stay open for a while."""
    generated = ["stored", "virtual"] if version >= 18 else ["stored"]
    bodies = [
        "(a int, b int, c text)",
        "(a int primary key, b int, c text)",
        "(a int primary key deferrable initially deferred, b int, c text)",
        "(a int not null unique, b int, c text)",
        "(a int, b int not null, c text, primary key (a, b))",
    ]
    bodies += [f"(a int, b int, c int generated always as (a + 1) {kind})" for kind in generated]
    bodies += [f"(a int primary key, b int, c int generated always as (a + 1) {kind})" for kind in generated]
    bodies += [f"(a int not null unique, b int, c int generated always as (a + 1) {kind})" for kind in generated]
    bodies += ["(a int, b int, c int generated always as (a + 1) stored primary key)"]
    name, parent, column, body = map(st.sampled_from, (NAMES, PARENTS, COLUMNS, bodies))
    creations = st.one_of(
        st.builds("create table {} {}".format, name, body),
        st.builds("create table {} {}".format, name, body),
        st.builds("create unlogged table {} {}".format, name, body),
        st.builds("create table {} as select 1 as a, 2 as b, 'x'::text as c".format, name),
        st.builds("select 1 as a, 2 as b, 'x'::text as c into {}".format, name),
        st.builds("create temp table {} {}".format, st.sampled_from(("t0", "tmp")), body),
        st.builds("create table {} (d int) inherits ({})".format, name, name),
        st.builds("create table {} (like {} including all)".format, name, name),
        st.builds("create table {} {} partition by list (a)".format, parent, body),
        st.builds("create table {} partition of {} for values in (1, 2)".format, name, parent),
        st.builds("create table {} partition of {} default".format, name, parent),
        st.builds("create unique index on {} ({})".format, name, column),
        st.builds("create unique index concurrently i0 on {} ({})".format, name, column),
        st.builds("create unique index i1 on {} ({})".format, name, column),
        st.builds("create publication theirs for table {} with (publish = 'insert')".format, name),
    )
    actions = [
        "add primary key (a)",
        "add primary key using index i1",
        "drop constraint t0_pkey",
        "drop constraint t1_pkey",
        "add unique (a)",
        "set logged",
        "set unlogged",
        "set unlogged, add column e int",
        "alter a type bigint using a + 1",
        "alter b set not null",
        "alter b drop not null",
        "alter a drop not null",
        "add column d int default 7",
        "drop column a cascade",
        "drop column c",
        "rename column b to z",
        "rename column z to b",
        "replica identity full",
        "replica identity nothing",
        "replica identity default",
        "replica identity using index i1",
        "replica identity using index t0_a_key",
        "set schema other",
        "set schema public",
        "rename to t1",
        "no inherit t0",
        "inherit t1",
        "alter c drop expression",
        "set (fillfactor = 90)",
        "enable row level security",
        "alter a set statistics 10",
        "add constraint positive check (a > -1) not valid",
        "validate constraint positive",
        "add foreign key (b) references t0 (a)",
    ]
    if version >= 17:
        actions += ["alter c set expression as (a + 2)"] * 2
    actions += [f"add column f int generated always as (a * 2) {kind}" for kind in generated]
    alterations = st.builds("alter table {} {}".format, st.one_of(name, name, parent), st.sampled_from(actions))
    in_blocks = st.builds("do $$ begin {}; end $$".format, alterations)
    partitions = st.one_of(
        st.builds("alter table {} attach partition {} for values in (3, 4)".format, parent, name),
        st.builds("alter table {} detach partition {}".format, parent, name),
        st.builds("alter table {} detach partition {} concurrently".format, parent, name),
    )
    drops = st.one_of(
        st.builds("drop table {}".format, st.one_of(name, parent)),
        st.builds("drop table {} cascade".format, name),
        st.sampled_from(
            (
                "drop index i0",
                "drop index i1",
                # Not i1, which may be a replica identity: docs/privileges.md says why that one is refused.
                "drop index concurrently i0",
                "drop schema other cascade",
                "create schema other",
                "drop publication theirs",
            )
        ),
    )
    target = st.one_of(name, name, name, parent)
    writes = st.one_of(
        st.builds("insert into {} (a, b) values ({}, 1)".format, target, st.integers(1, 4)),
        st.builds("update {} set a = {}".format, target, st.integers(1, 4)),
        st.builds("delete from {} where a = {}".format, target, st.integers(1, 4)),
        st.builds("truncate {} cascade".format, target),
        st.builds(
            "merge into {0} x using (values (1)) y (a) on x.a = y.a when matched then update set b = 3 "
            "when not matched then insert (a, b) values (1, 2)".format,
            target,
        ),
        st.builds("insert into {} (a, b) values (1, 1) on conflict (a) do update set b = 5".format, target),
    )
    turns = st.sampled_from(
        (
            "begin",
            "begin",
            "begin isolation level serializable",
            "commit",
            "commit",
            "rollback",
            "savepoint s",
            "rollback to s",
            "prepare transaction",
            "commit prepared",
            "rollback prepared",
            "sweep",
            "sweep",
        )
    )
    kinds = [creations, *[alterations] * 6, *[in_blocks] * 2, partitions, drops, writes, turns, turns]
    step = st.sampled_from(kinds).flatmap(lambda kind: kind)  # one_of would flatten, and most would be creations
    first = st.tuples(
        *(
            st.builds(
                "create {} {} {}".format, st.sampled_from(("table", "table", "unlogged table")), st.just(one), body
            )
            for one in NAMES
        ),
        *(st.builds("create table {} {} partition by list (a)".format, st.just(one), body) for one in PARENTS),
    )
    probes = [f"{verb} {one}{rest}" for one in (*NAMES, *PARENTS) for verb, rest in _PROBES]
    return st.builds(
        lambda first, steps: [*first, *probes, *(command for step in steps for command in (*step, *probes))],
        first,
        st.lists(st.one_of(st.tuples(step), st.tuples(step), _losses(name)), min_size=5, max_size=20),
    )


def _losses(name: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """A table gets an identity of its user's choice, is written to, and loses it in one of several ways."""
    gain = (
        "alter table {0} alter a set not null",
        "create unique index i1 on {0} (a)",
        "alter table {0} replica identity using index i1",
        "update {0} set b = 4",
    )
    losses = (
        "drop index i1",
        "drop index {1}",
        "alter table {0} drop column a",
        "alter table {0} replica identity default",
    )
    return st.builds(
        lambda table, loss: [c.format(table, "other.i1" if table.startswith("other") else "i1") for c in (*gain, loss)],
        name,
        st.sampled_from(losses),
    )


_PROBES = (("update", " set b = b"), ("delete from", " where a = 9"))
