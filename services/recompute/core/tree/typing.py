"""The type, modifier and collation of an expression (exprType, exprTypmod, exprCollation of nodeFuncs.c)."""

from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.nodes import Expr

BOOL = 16
NO_TYPE = 0
# numeric(numeric, int4), bpchar(bpchar, int4, bool), varchar(varchar, int4, bool): the second argument is the modifier.
_LENGTH_COERCIONS = frozenset((1703, 668, 669))


def type_of(node: Expr | None) -> int:
    """The oid of its type; 0 where we do not know."""
    match node:
        case n.Var(vartype=found) | n.Const(consttype=found) | n.Param(paramtype=found):
            return found
        case n.OpExpr(opresulttype=found) | n.FuncExpr(funcresulttype=found):
            return found if not isinstance(node, n.NullIfExpr) else type_of(node.args[0])
        case n.RelabelType(resulttype=found) | n.CoerceViaIO(resulttype=found) | n.ArrayCoerceExpr(resulttype=found):
            return found
        case n.CoerceToDomain(resulttype=found) | n.CaseExpr(casetype=found) | n.CaseTestExpr(typeId=found):
            return found
        case n.CoalesceExpr(coalescetype=found) | n.MinMaxExpr(minmaxtype=found) | n.ArrayExpr(array_typeid=found):
            return found
        case n.Aggref(aggtype=found) | n.WindowFunc(wintype=found) | n.SQLValueFunction(type=found):
            return found
        case n.BoolExpr() | n.NullTest() | n.BooleanTest() | n.ScalarArrayOpExpr() | n.RowCompareExpr():
            return BOOL
        case n.CollateExpr(arg=arg) | n.NamedArgExpr(arg=arg):
            return type_of(arg)
        case n.RowExpr(row_typeid=found):
            return found
        case n.TargetEntry(expr=expr):
            return type_of(expr)
        case n.SubLink():
            return _type_of_sublink(node)
    return NO_TYPE


def _type_of_sublink(node: n.SubLink) -> int:
    if node.subLinkType in (0, 1, 2, 3):
        return BOOL
    column = _only_column(node)
    return type_of(column) if node.subLinkType == 4 and column is not None else NO_TYPE


def _only_column(node: n.SubLink) -> Expr | None:
    if not isinstance(node.subselect, n.Query):
        return None
    shown = [entry for entry in node.subselect.targetList if isinstance(entry, n.TargetEntry) and not entry.resjunk]
    return shown[0].expr if shown else None


def modifier_of(node: Expr | None) -> int:
    """Its type modifier; -1 for none."""
    match node:
        case n.Var(vartypmod=found) | n.Const(consttypmod=found) | n.Param(paramtypmod=found):
            return found
        case n.RelabelType(resulttypmod=found) | n.ArrayCoerceExpr(resulttypmod=found):
            return found
        case n.CoerceToDomain(resulttypmod=found) | n.CaseTestExpr(typeMod=found) | n.SQLValueFunction(typmod=found):
            return found
        case n.FuncExpr(funcid=function, funcformat=form, args=args) if form in (1, 2) and len(args) > 1:
            return _of_length_coercion(function, args)
        case n.NullIfExpr(args=args):
            return modifier_of(args[0])
        case n.CollateExpr(arg=arg) | n.NamedArgExpr(arg=arg):
            return modifier_of(arg)
        case n.CoalesceExpr(args=args, coalescetype=wanted) | n.MinMaxExpr(args=args, minmaxtype=wanted):
            return _common_modifier(args, wanted)
        case n.CaseExpr():
            results = tuple(arm.result for arm in node.args if isinstance(arm, n.CaseWhen))
            # Without ELSE there is no modifier: exprTypmod() gives up on a CASE that may be NULL by default.
            return _common_modifier((node.defresult, *results), node.casetype) if node.defresult is not None else -1
        case n.TargetEntry(expr=expr):
            return modifier_of(expr)
        case n.SubLink() if node.subLinkType in (4, 6):
            return modifier_of(_only_column(node))
    return -1


def _of_length_coercion(function: int, args: tuple[Expr, ...]) -> int:
    size = args[1]
    if function in _LENGTH_COERCIONS and isinstance(size, n.Const) and size.constvalue is not None:
        return int.from_bytes(size.constvalue, "little", signed=True)
    return -1


def _common_modifier(parts: tuple[Expr | None, ...], wanted: int) -> int:
    found = {modifier_of(part) if type_of(part) == wanted else -1 for part in parts}
    return found.pop() if len(found) == 1 else -1


def collation_of(node: Expr | None) -> int:
    """The oid of its collation; 0 for none, also where several conflict."""
    match node:
        case n.Var(varcollid=found) | n.Const(constcollid=found) | n.Param(paramcollid=found):
            return found
        case n.NullIfExpr(opcollid=found) | n.OpExpr(opcollid=found) | n.FuncExpr(funccollid=found):
            return found
        case n.RelabelType(resultcollid=found) | n.CoerceViaIO(resultcollid=found):
            return found
        case n.ArrayCoerceExpr(resultcollid=found) | n.CoerceToDomain(resultcollid=found):
            return found
        case n.CollateExpr(collOid=found) | n.CaseExpr(casecollid=found) | n.CaseTestExpr(collation=found):
            return found
        case n.CoalesceExpr(coalescecollid=found) | n.MinMaxExpr(minmaxcollid=found):
            return found
        case n.ArrayExpr(array_collid=found) | n.Aggref(aggcollid=found) | n.WindowFunc(wincollid=found):
            return found
        case n.SQLValueFunction(type=19):
            return 950  # name has collation C
        case n.NamedArgExpr(arg=arg):
            return collation_of(arg)
        case n.TargetEntry(expr=expr):
            return collation_of(expr)
        case n.SubLink() if node.subLinkType in (4, 6):
            return collation_of(_only_column(node))
    return 0
