"""What PostgreSQL's tree says of a query: the rights that it asks for, and its result's columns."""

from collections.abc import Iterator

from msgspec import Struct

from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.typing import collation_of, modifier_of, type_of
from services.recompute.core.tree.walking import queries, walk, walk_within

# FirstLowInvalidHeapAttributeNumber: selectedCols counts columns from here, so that system columns fit.
_FIRST_ATTRIBUTE = -7
_ACL_SELECT = 2
_TABLEOID = -6
# Aggregates whose result does not depend on the order of rows: count, and of exact types sum, avg, min, max, and the
# logical and bitwise ones. Those of floats, of texts and lists, and everything that a user wrote are not among them.
_ORDERLESS = frozenset(
    (
        *(2803, 2147, 2107, 2108, 2109, 2114, 2100, 2101, 2102, 2103, 2115, 2116, 2117, 2118, 2122, 2123, 2126, 2127),
        *(2131, 2132, 2133, 2134, 2138, 2139, 2142, 2143, 2517, 2518, 2519),
        *(2236, 2237, 2238, 2239, 2240, 2241, 6164, 6165, 6166),
    )
)

_TYPE_FIELDS = frozenset(
    (
        *("vartype", "consttype", "paramtype", "opresulttype", "funcresulttype", "resulttype", "casetype", "typeId"),
        *("coalescetype", "minmaxtype", "array_typeid", "element_typeid", "aggtype", "wintype", "type"),
        *("coltypes", "colTypes"),
    )
)
_COLLATION_FIELDS = frozenset(
    (
        *("varcollid", "constcollid", "paramcollid", "opcollid", "inputcollid", "funccollid", "resultcollid"),
        *("collOid", "casecollid", "collation", "coalescecollid", "minmaxcollid", "array_collid", "aggcollid"),
        *("wincollid", "colCollations", "colcollations"),
    )
)
_FIRST_USER_OID = 16384
# date, time, timestamp, timestamptz, timetz, and arrays and ranges of them
_TIMES = frozenset(
    (1082, 1083, 1114, 1184, 1266, 1182, 1183, 1115, 1185, 1270, 3912, 3908, 3910, 4535, 4533, 4534, 3913, 3909, 3911)
)
_OID_BYTES = 4


class RequiredPermission(Struct, frozen=True):
    """SELECT on columns of a relation, for the user (0) or for a view's owner. Column 0 is the whole row."""

    relation: int
    columns: frozenset[int]
    check_as_user: int
    # Other rights than SELECT are asked for as well.
    more_than_select: bool = False


class TreeColumn(Struct, frozen=True):
    name: str
    type: int
    modifier: int
    collation: int


def required_permissions(tree: n.Query) -> list[RequiredPermission]:
    """For every relation of every query inside; one that is read twice may stand here twice."""
    return [permission for query in queries(tree) for permission in _of_query(query)]


def _of_query(query: n.Query) -> Iterator[RequiredPermission]:
    for entry in query.rtable:
        if isinstance(entry, n.RangeTblEntry) and entry.requiredPerms and entry.relid:
            yield _permission(entry.relid, entry)
    for given in query.rteperminfos:
        if isinstance(given, n.RTEPermissionInfo) and given.requiredPerms:
            yield _permission(given.relid, given)


def _permission(relation: int, asked: n.RangeTblEntry | n.RTEPermissionInfo) -> RequiredPermission:
    columns = frozenset(place + _FIRST_ATTRIBUTE for place in asked.selectedCols)
    return RequiredPermission(relation, columns, asked.checkAsUser, asked.requiredPerms != _ACL_SELECT)


def output_columns(tree: n.Query) -> list[TreeColumn]:
    """The result's columns in order; those that are only sorted or grouped by are left out."""
    return [
        TreeColumn(entry.resname or "", type_of(entry.expr), modifier_of(entry.expr), collation_of(entry.expr))
        for entry in tree.targetList
        if isinstance(entry, n.TargetEntry) and not entry.resjunk
    ]


def reads_system_columns(tree: n.Query) -> bool:
    """ctid, xmin and their like change though no value of the row does; tableoid does not."""
    return any(isinstance(node, n.Var) and _TABLEOID != node.varattno < 0 for node in walk(tree))


def has_constant_times(tree: n.Query) -> bool:
    return any(isinstance(node, n.Const) and node.consttype in _TIMES for node in walk(tree))


def has_one_answer(tree: n.Query) -> bool:
    """Whether the same rows must give the same result, as far as LIMIT, windows and aggregates go."""
    for node in walk(tree):
        match node:
            case n.Query():
                is_cut = node.limitCount is not None or node.limitOffset is not None
                has_one = not is_cut and not node.hasDistinctOn
            case n.Aggref(aggfnoid=oid):
                has_one = oid in _ORDERLESS
            case n.WindowFunc():
                has_one = False
            case n.FuncExpr(funcformat=0):
                # Not looked at closely.
                has_one = False
            case _:
                has_one = True
        if not has_one:
            return False
    return True


class Numbers(Struct, frozen=True):
    """The oids in a tree of which only the catalog says what they stand for."""

    types: frozenset[int] = frozenset()
    collations: frozenset[int] = frozenset()
    # Values of enums, and of whatever other type of a user's is as long.
    labels: frozenset[int] = frozenset()


def numbers_of(tree: n.Query) -> Numbers:
    types: set[int] = set()
    collations: set[int] = set()
    labels: set[int] = set()
    for node in walk(tree):
        for name in node.__struct_fields__:
            if name in _TYPE_FIELDS:
                types.update(_listed(getattr(node, name)))
            elif name in _COLLATION_FIELDS:
                collations.update(_listed(getattr(node, name)))
        if isinstance(node, n.Const) and node.consttype >= _FIRST_USER_OID and node.constvalue is not None:
            labels.add(int.from_bytes(node.constvalue[:_OID_BYTES], "little"))
    return Numbers(frozenset(types - {0}), frozenset(collations - {0}), frozenset(labels))


def _listed(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def is_ordered(tree: n.Query) -> bool:
    """Whether the result has an order, also behind the filter of a subscription."""
    while not tree.sortClause and _is_shell(tree):
        (entry,) = tree.rtable
        assert isinstance(entry, n.RangeTblEntry) and isinstance(entry.subquery, n.Query)
        tree = entry.subquery
    return bool(tree.sortClause)


def _is_shell(tree: n.Query) -> bool:
    entry = tree.rtable[0] if len(tree.rtable) == 1 else None
    return isinstance(entry, n.RangeTblEntry) and isinstance(entry.subquery, n.Query) and _is_plain(tree)


def _is_plain(query: n.Query) -> bool:
    """Rows of one FROM item, each once or left out."""
    parts = (
        *(query.setOperations, query.cteList, query.groupClause, query.groupingSets, query.havingQual),
        *(query.distinctClause, query.hasTargetSRFs),
    )
    shown = [node for entry in query.targetList for node in walk_within(entry)]
    return not any(parts) and not any(isinstance(node, n.Aggref) for node in shown)


def key_of_one_table(query: n.Query) -> tuple[int, list[int]] | None:
    """The one relation that is read, and for each column of the result the number of its column, or 0."""
    items = query.jointree.fromlist if isinstance(query.jointree, n.FromExpr) else ()
    if not _is_plain(query) or len(items) != 1 or not isinstance(items[0], n.RangeTblRef):
        return None
    number = items[0].rtindex
    entry = query.rtable[number - 1]
    if not isinstance(entry, n.RangeTblEntry) or entry.tablesample is not None:
        return None
    inside: tuple[int, list[int]] | None = None
    if isinstance(entry.subquery, n.Query):
        inside = key_of_one_table(entry.subquery)
        if inside is None:
            return None
    elif entry.rtekind != 0:
        return None
    shown = [one.expr for one in query.targetList if isinstance(one, n.TargetEntry) and not one.resjunk]
    own = [
        one.varattno if isinstance(one, n.Var) and (one.varno, one.varlevelsup) == (number, 0) else 0 for one in shown
    ]
    if inside is None:
        return entry.relid, own
    relation, columns = inside
    return relation, [columns[place - 1] if 0 < place <= len(columns) else 0 for place in own]
