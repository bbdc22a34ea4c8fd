"""The images of a row: what it was before a change and what it is after it."""

from proto.pgoutput.messages import ABSENT, Delete, Insert, Relation, Row, Update


def images(relation: Relation, message: Insert | Update | Delete) -> tuple[str, Row | None, Row | None]:
    """The operation, and the row before and after it as far as the log tells them."""
    match message:
        case Insert(after=after):
            return "insert", None, after
        case Delete(before=before, before_is_key=is_key):
            return "delete", _only_identity(relation, before) if is_key else before, None
        case Update(before=before, before_is_key=is_key, after=after):
            if before is None:
                return "update", None, after
            if is_key:
                before = _only_identity(relation, before)
            if ABSENT in after:
                # The new row points to the old row's TOAST value, which a FULL old row carries.
                after = tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))
            return "update", before, after


def _only_identity(relation: Relation, row: Row) -> Row:
    """PostgreSQL sends NULL for the columns that are not part of the identity: they are not known to be NULL."""
    return tuple(value if column.is_identity else ABSENT for column, value in zip(relation.columns, row, strict=True))
