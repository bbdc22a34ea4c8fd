"""The nodes of a query tree, with PostgreSQL's own names (primnodes.h, parsenodes.h) for their fields.

Fields that say nothing of a query's meaning (locations, lock modes) are left out. What differs between versions has a
default.
"""

from typing import TypeAlias

from msgspec import Struct

Oids: TypeAlias = tuple[int, ...]


class NotUnderstood(Struct, frozen=True):
    """A node, or a whole text, that has no type here. `name` says which."""

    name: str


class Var(Struct, frozen=True):
    varno: int
    varattno: int
    vartype: int
    vartypmod: int
    varcollid: int
    varlevelsup: int


class Const(Struct, frozen=True):
    consttype: int
    consttypmod: int
    constcollid: int
    constlen: int
    constbyval: bool
    constisnull: bool
    # As it lies in memory: little-endian, and with its length in front if constlen is -1; None for NULL.
    constvalue: bytes | None = None


class Param(Struct, frozen=True):
    # 0 is $1 …; 2 stands for a column of a SubLink's query.
    paramkind: int
    paramid: int
    paramtype: int
    paramtypmod: int
    paramcollid: int


class OpExpr(Struct, frozen=True):
    opno: int
    opresulttype: int
    opretset: bool
    opcollid: int
    inputcollid: int
    args: "tuple[Expr, ...]"


class DistinctExpr(OpExpr, frozen=True):
    """IS DISTINCT FROM."""


class NullIfExpr(OpExpr, frozen=True):
    pass


class ScalarArrayOpExpr(Struct, frozen=True):
    opno: int
    useOr: bool
    inputcollid: int
    args: "tuple[Expr, ...]"


class FuncExpr(Struct, frozen=True):
    funcid: int
    funcresulttype: int
    funcretset: bool
    funcvariadic: bool
    # 0 a call, 1 an explicit cast, 2 an implicit one, 3 SQL syntax such as EXTRACT.
    funcformat: int
    funccollid: int
    inputcollid: int
    args: "tuple[Expr, ...]"


class NamedArgExpr(Struct, frozen=True):
    arg: "Expr"
    argnumber: int


class RelabelType(Struct, frozen=True):
    arg: "Expr"
    resulttype: int
    resulttypmod: int
    resultcollid: int
    relabelformat: int


class CoerceViaIO(Struct, frozen=True):
    arg: "Expr"
    resulttype: int
    resultcollid: int
    coerceformat: int


class ArrayCoerceExpr(Struct, frozen=True):
    arg: "Expr"
    elemexpr: "Expr"
    resulttype: int
    resulttypmod: int
    resultcollid: int
    coerceformat: int


class CoerceToDomain(Struct, frozen=True):
    arg: "Expr"
    resulttype: int
    resulttypmod: int
    resultcollid: int


class CollateExpr(Struct, frozen=True):
    arg: "Expr"
    collOid: int


class CaseWhen(Struct, frozen=True):
    expr: "Expr"
    result: "Expr"


class CaseExpr(Struct, frozen=True):
    casetype: int
    casecollid: int
    arg: "Expr | None"
    args: "tuple[Expr, ...]"
    defresult: "Expr | None"


class CaseTestExpr(Struct, frozen=True):
    typeId: int
    typeMod: int
    collation: int


class CoalesceExpr(Struct, frozen=True):
    coalescetype: int
    coalescecollid: int
    args: "tuple[Expr, ...]"


class MinMaxExpr(Struct, frozen=True):
    minmaxtype: int
    minmaxcollid: int
    inputcollid: int
    # 0 GREATEST, 1 LEAST.
    op: int
    args: "tuple[Expr, ...]"


class BoolExpr(Struct, frozen=True):
    # and, or, not
    boolop: str
    args: "tuple[Expr, ...]"


class NullTest(Struct, frozen=True):
    arg: "Expr"
    # 0 IS NULL, 1 IS NOT NULL.
    nulltesttype: int
    argisrow: bool


class BooleanTest(Struct, frozen=True):
    arg: "Expr"
    booltesttype: int


class ArrayExpr(Struct, frozen=True):
    array_typeid: int
    array_collid: int
    element_typeid: int
    elements: "tuple[Expr, ...]"
    multidims: bool


class RowExpr(Struct, frozen=True):
    args: "tuple[Expr, ...]"
    row_typeid: int


class RowCompareExpr(Struct, frozen=True):
    opnos: Oids
    inputcollids: Oids
    largs: "tuple[Expr, ...]"
    rargs: "tuple[Expr, ...]"


class SQLValueFunction(Struct, frozen=True):
    # 0 CURRENT_DATE … 14 CURRENT_SCHEMA.
    op: int
    type: int
    typmod: int


class Aggref(Struct, frozen=True):
    aggfnoid: int
    aggtype: int
    aggcollid: int
    inputcollid: int
    aggargtypes: Oids
    aggdirectargs: "tuple[Expr, ...]"
    args: "tuple[Expr, ...]"
    aggorder: "tuple[Expr, ...]"
    aggdistinct: "tuple[Expr, ...]"
    aggfilter: "Expr | None"
    aggstar: bool
    aggvariadic: bool
    # n normal, o ordered-set, h hypothetical-set
    aggkind: str
    agglevelsup: int


class WindowFunc(Struct, frozen=True):
    winfnoid: int
    wintype: int
    wincollid: int
    inputcollid: int
    args: "tuple[Expr, ...]"
    aggfilter: "Expr | None"
    winref: int
    winstar: bool
    winagg: bool


class SubLink(Struct, frozen=True):
    # 0 EXISTS, 1 ALL, 2 ANY, 3 row comparison, 4 scalar, 5 several columns, 6 ARRAY, 7 CTE
    subLinkType: int
    testexpr: "Expr | None"
    subselect: "Expr"


class TargetEntry(Struct, frozen=True):
    expr: "Expr"
    resno: int
    resname: str | None
    ressortgroupref: int
    resjunk: bool


class SortGroupClause(Struct, frozen=True):
    tleSortGroupRef: int
    eqop: int
    sortop: int
    nulls_first: bool


class GroupingSet(Struct, frozen=True):
    # 0 (), 1 a plain list, 2 ROLLUP, 3 CUBE, 4 GROUPING SETS
    kind: int


class WindowClause(Struct, frozen=True):
    partitionClause: "tuple[Expr, ...]"
    orderClause: "tuple[Expr, ...]"
    frameOptions: int
    startOffset: "Expr | None"
    endOffset: "Expr | None"
    winref: int


class RangeTblRef(Struct, frozen=True):
    rtindex: int


class JoinExpr(Struct, frozen=True):
    # 0 inner, 1 left, 2 full, 3 right
    jointype: int
    larg: "Expr"
    rarg: "Expr"
    quals: "Expr | None"
    rtindex: int


class FromExpr(Struct, frozen=True):
    fromlist: "tuple[Expr, ...]"
    quals: "Expr | None"


class RangeTblFunction(Struct, frozen=True):
    funcexpr: "Expr"


class SetOperationStmt(Struct, frozen=True):
    # 1 UNION, 2 INTERSECT, 3 EXCEPT
    op: int
    all: bool
    larg: "Expr"
    rarg: "Expr"
    colTypes: Oids
    colTypmods: tuple[int, ...]
    colCollations: Oids
    groupClauses: "tuple[Expr, ...]"


class CommonTableExpr(Struct, frozen=True):
    ctename: str | None
    ctematerialized: int
    ctequery: "Expr"
    cterecursive: bool
    cterefcount: int
    search_clause: "Expr | None" = None
    cycle_clause: "Expr | None" = None


class RTEPermissionInfo(Struct, frozen=True):
    """What reading one relation asks for. Columns are counted from 8 on: 8 is the whole row, 9 the first column."""

    relid: int
    requiredPerms: int
    # 0: the user himself; else whose rights are asked for, the owner of a view.
    checkAsUser: int
    selectedCols: tuple[int, ...]


class RangeTblEntry(Struct, frozen=True, kw_only=True):
    # 0 relation, 1 subquery, 2 join, 3 function, 4 table function, 5 VALUES, 6 CTE, 7 tuplestore, 8 result, 9 group
    rtekind: int
    securityQuals: "tuple[Expr, ...]"
    lateral: bool
    inFromCl: bool
    relid: int = 0
    relkind: str | None = None
    tablesample: "Expr | None" = None
    inh: bool = False
    subquery: "Expr | None" = None
    security_barrier: bool = False
    jointype: int = 0
    joinaliasvars: "tuple[Expr, ...]" = ()
    functions: "tuple[Expr, ...]" = ()
    funcordinality: bool = False
    values_lists: "tuple[tuple[Expr, ...], ...]" = ()
    ctename: str | None = None
    ctelevelsup: int = 0
    self_reference: bool = False
    coltypes: Oids = ()
    coltypmods: tuple[int, ...] = ()
    colcollations: Oids = ()
    groupexprs: "tuple[Expr, ...]" = ()
    # Since 16: the place of its RTEPermissionInfo, counted from 1; 0: it has none.
    perminfoindex: int = 0
    # Before 16 they stand here.
    requiredPerms: int = 0
    checkAsUser: int = 0
    selectedCols: tuple[int, ...] = ()


class Query(Struct, frozen=True, kw_only=True):
    commandType: int
    hasTargetSRFs: bool
    hasDistinctOn: bool
    hasRecursive: bool
    cteList: "tuple[Expr, ...]"
    rtable: "tuple[Expr, ...]"
    jointree: "Expr"
    targetList: "tuple[Expr, ...]"
    groupClause: "tuple[Expr, ...]"
    groupingSets: "tuple[Expr, ...]"
    havingQual: "Expr | None"
    windowClause: "tuple[Expr, ...]"
    distinctClause: "tuple[Expr, ...]"
    sortClause: "tuple[Expr, ...]"
    limitOffset: "Expr | None"
    limitCount: "Expr | None"
    # 0 exactly so many rows, 1 WITH TIES
    limitOption: int
    rowMarks: "tuple[Expr, ...]"
    setOperations: "Expr | None"
    hasRowSecurity: bool
    rteperminfos: "tuple[Expr, ...]" = ()


_Leaf: TypeAlias = NotUnderstood | Var | Const | Param | CaseTestExpr | SQLValueFunction
_Call: TypeAlias = (
    OpExpr | DistinctExpr | NullIfExpr | ScalarArrayOpExpr | FuncExpr | NamedArgExpr | Aggref | WindowFunc
)
_Conversion: TypeAlias = RelabelType | CoerceViaIO | ArrayCoerceExpr | CoerceToDomain | CollateExpr
_Choice: TypeAlias = CaseWhen | CaseExpr | CoalesceExpr | MinMaxExpr | BoolExpr | NullTest | BooleanTest
_Composite: TypeAlias = ArrayExpr | RowExpr | RowCompareExpr | SubLink
_Clause: TypeAlias = TargetEntry | SortGroupClause | GroupingSet | WindowClause
_FromItem: TypeAlias = RangeTblRef | JoinExpr | FromExpr | RangeTblFunction | RTEPermissionInfo | RangeTblEntry
_Statement: TypeAlias = SetOperationStmt | CommonTableExpr | Query
Expr: TypeAlias = _Leaf | _Call | _Conversion | _Choice | _Composite | _Clause | _FromItem | _Statement
