"""Dates and moments: differences, intervals added, truncation, fields."""

import re

from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.sql import numerics
from services.recompute.core.sql.casts import cast, date_of_moment, require_utc, smallest_bigint
from services.recompute.core.sql.typed import (
    DATE,
    INT4,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Span,
    Typed,
    Untranslatable,
    bound,
    merged_flags,
)
from services.recompute.core.storage import DATE_INFINITY, DATE_MINUS_INFINITY, DAY_US, MOMENT_INFINITY, quoted

# The first and the last of PostgreSQL's own range.
_DATES = (-2_451_545, 2_145_031_948)
_MOMENTS = (-211_813_488_000_000_000, 9_223_371_331_199_999_999)
_TRUNCATED_US = {
    "microseconds": 1,
    "milliseconds": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": DAY_US,
}
_CALENDAR = {"month": "MM", "quarter": "QUARTER", "year": "YEAR"}
_DAY_FIELDS = {
    "year": ("(CASE WHEN year({0}) > 0 THEN year({0}) ELSE year({0}) - 1 END)", 7),
    "month": ("month({0})", 2),
    "day": ("day({0})", 2),
    "quarter": ("quarter({0})", 1),
    "dow": ("(dayofweek({0}) - 1)", 1),
    "isodow": ("(weekday({0}) + 1)", 1),
    "doy": ("dayofyear({0})", 3),
    "week": ("weekofyear({0})", 2),
}
_TIME_FIELDS = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60)}
_PATTERN = re.compile(r"(YYYY|MM|DD|HH24|MI|SS|[-/.: ])+")
# The day of the year and the second of the day, which PostgreSQL reads first where they are part of the text.
_OTHER_PATTERN = re.compile("DDD|SSSS")
_PATTERN_PART = re.compile(r"(YYYY|MM|DD|HH24|MI|SS)")
# The years 1000 to 9999.
_FOUR_DIGITS = (-31_556_908_800_000_000, 252_455_616_000_000_000)
_EPOCH_US = 946_684_800_000_000
_MOMENT_TYPES = ("timestamp", "timestamptz")


def difference(operator: str, left: Typed, right: Typed) -> Typed:
    """Between two dates or moments, or a date with days added or taken."""
    names = left.type.name, right.type.name
    flags = merged_flags(left, right)
    if names == ("date", "date") and operator == "-":
        finite = " OR ".join(_is_infinite_date(one.sql) for one in (left, right))
        sql = f"CASE WHEN {finite} THEN CAST(raise_error('infinite date') AS INT) ELSE {left.sql} - {right.sql} END"
        return Typed(sql=f"({sql})", type=INT4, **flags)
    if operator == "+" and names[1] == "date":
        left, right, names = right, left, (names[1], names[0])
    if names[0] == "date" and names[1] in ("int2", "int4") and operator in ("+", "-"):
        moved = f"({left.sql} {operator} CAST({right.sql} AS INT))"
        return Typed(
            sql=f"(CASE WHEN {_is_infinite_date(left.sql)} THEN {left.sql} ELSE {_checked(moved, _DATES, 'INT')} END)",
            type=DATE,
            **flags,
        )
    if operator == "-" and names[0] in _MOMENT_TYPES and names[0] == names[1]:
        finite = " OR ".join(_is_infinite(one.sql) for one in (left, right))
        sql = f"CASE WHEN {finite} THEN CAST(raise_error('infinite') AS BIGINT) ELSE {left.sql} - {right.sql} END"
        return Typed(sql=f"({sql})", type=INTERVAL, elapsed=True, **flags)
    raise Untranslatable(f"{names[0]} {operator} {names[1]}")


def shifted(typed: Typed, span: Span, settings: TextSettings) -> Typed:
    """A moment plus an interval: months first, clipped to the month's last day, then days, then the clock."""
    type_ = TIMESTAMP if typed.type.name == "date" else typed.type
    if type_.name not in _MOMENT_TYPES:
        raise Untranslatable(f"{typed.type.name} + interval")
    moment = cast(typed, TIMESTAMP, settings).sql if typed.type.name == "date" else typed.sql
    if type_.name == "timestamptz" and (span.months or span.days):
        require_utc("an interval of days added to timestamptz", settings)

    def moved(x: str) -> str:
        later = _checked(_later(x, span), _MOMENTS, "BIGINT")
        return f"(CASE WHEN {_is_infinite(x)} THEN {x} ELSE {later} END)"

    return Typed(sql=bound(moment, moved), type=type_, **merged_flags(typed))


def _later(sql: str, span: Span) -> str:
    if span.months:
        sql = bound(sql, lambda x: _months_later(x, span.months))
    if span.days:
        sql = f"({sql} + {span.days * DAY_US}L)"
    return f"({sql} + {span.microseconds}L)" if span.microseconds else sql


def _months_later(sql: str, months: int) -> str:
    day = f"add_months({_day(date_of_moment(sql))}, {months})"
    return f"({_midnight(day)} + pmod({sql}, {DAY_US}L))"


def truncated(unit: str, typed: Typed, settings: TextSettings) -> Typed:
    """date_trunc: of a date it is a timestamptz."""
    unit = unit.lower()
    if typed.type.name == "date":
        typed = cast(typed, TIMESTAMPTZ, settings)
    if typed.type.name not in _MOMENT_TYPES:
        raise Untranslatable(f"date_trunc of {typed.type.name}")
    if unit not in _TRUNCATED_US and unit not in _CALENDAR and unit != "week":
        raise Untranslatable(f"date_trunc to {unit}")
    if typed.type.name == "timestamptz":
        require_utc("date_trunc", settings)

    def truncated_(x: str) -> str:
        return f"(CASE WHEN {_is_infinite(x)} THEN {x} ELSE {_checked(_begun(unit, x), _MOMENTS, 'BIGINT')} END)"

    return Typed(sql=bound(typed.sql, truncated_), type=typed.type, **merged_flags(typed))


def _begun(unit: str, sql: str) -> str:
    """When the unit began."""
    if unit in _TRUNCATED_US:
        return f"({sql} - pmod({sql}, {_TRUNCATED_US[unit]}L))"
    if unit == "week":
        # 2000-01-01 was a Saturday, five days after Monday.
        return bound(date_of_moment(sql), lambda x: f"(CAST({x} - pmod({x} + 5, 7) AS BIGINT) * {DAY_US}L)")
    return _midnight(f"trunc({_day(date_of_moment(sql))}, '{_CALENDAR[unit]}')")


def field(name: str, typed: Typed, settings: TextSettings) -> Typed:
    """extract(name FROM …), a numeric."""
    name = name.lower()
    if typed.elapsed and name == "epoch":
        return _seconds(typed.sql, typed)
    if typed.type.name == "timestamptz" and name != "epoch":
        require_utc("extract", settings)
    sql = bound(typed.sql, lambda x: _field_of(name, replace(typed, sql=x)).sql)
    return replace(_field_of(name, typed), sql=sql)


def _field_of(name: str, typed: Typed) -> Typed:
    """A field on the wall's calendar and clock."""
    if typed.type.name == "date":
        days, infinite = typed.sql, _is_infinite_date(typed.sql)
    elif typed.type.name in _MOMENT_TYPES:
        days, infinite = date_of_moment(typed.sql), _is_infinite(typed.sql)
    else:
        raise Untranslatable(f"extract from {typed.type.name}")
    if name in _DAY_FIELDS:
        form, width = _DAY_FIELDS[name]
        return _field(form.format(_day(days)), infinite, (width, 0), typed)
    if typed.type.name == "date":
        if name == "epoch":
            return _field(f"CAST({days} AS BIGINT) * 86400L + 946684800L", infinite, (15, 0), typed)
        raise Untranslatable(f"extract({name} from date)")
    if name in _TIME_FIELDS:
        unit, most = _TIME_FIELDS[name]
        return _field(f"pmod({typed.sql}, {unit * most}L) div {unit}L", infinite, (2, 0), typed)
    if name == "second":
        return _seconds(_finite(f"pmod({typed.sql}, 60000000L)", infinite, "BIGINT"), typed)
    if name == "epoch":
        return _seconds(_finite(f"{typed.sql} + {_EPOCH_US}L", infinite, "BIGINT"), typed)
    raise Untranslatable(f"extract({name} from {typed.type.name})")


def written(typed: Typed, pattern: str, settings: TextSettings) -> Typed:
    """to_char() with numbers only, in years of four digits."""
    if typed.type.name == "date":
        typed = cast(typed, TIMESTAMPTZ, settings)
    if typed.type.name == "timestamptz":
        typed = cast(typed, TIMESTAMP, settings)
    if typed.type.name != "timestamp" or not _PATTERN.fullmatch(pattern) or _OTHER_PATTERN.search(pattern):
        raise Untranslatable(f"to_char of {typed.type.name} as '{pattern}'")
    parts = [part for part in _PATTERN_PART.split(pattern) if part]

    def spelled(x: str) -> str:
        day = _day(date_of_moment(x))
        return "concat(" + ", ".join(_spelled(part, x, day) for part in parts) + ")"

    def known(x: str) -> str:
        low, high = _FOUR_DIGITS
        outside = "CAST(raise_error('a year that has not four digits') AS STRING)"
        return f"CASE WHEN {x} >= {low}L AND {x} < {high}L THEN {spelled(x)} WHEN {x} IS NOT NULL THEN {outside} END"

    return Typed(sql=bound(typed.sql, known), type=TEXT, **merged_flags(typed))


def _spelled(part: str, moment: str, day: str) -> str:
    numbers = {"YYYY": f"year({day})", "MM": f"month({day})", "DD": f"day({day})"}
    for name, unit, most in (("HH24", 3_600_000_000, 24), ("MI", 60_000_000, 60), ("SS", 1_000_000, 60)):
        numbers[name] = f"pmod({moment}, {unit * most}L) div {unit}L"
    if part not in numbers:
        return quoted(part)
    return f"lpad(CAST({numbers[part]} AS STRING), {4 if part == 'YYYY' else 2}, '0')"


def interval_text(typed: Typed) -> str:
    """What IntervalStyle `postgres` prints for the time between two moments."""
    x, within = typed.sql, f"({typed.sql} % {DAY_US}L)"
    days, rest = f"({x} div {DAY_US}L)", f"abs({within})"
    clock = ", ':', ".join(
        f"lpad(CAST({part} AS STRING), 2, '0')"
        for part in (
            f"{rest} div 3600000000L",
            f"({rest} div 60000000L) % 60",
            f"({rest} div 1000000L) % 60",
        )
    )
    fraction = f"({rest} % 1000000L)"
    digits = f"lpad(CAST({fraction} AS STRING), 6, '0')"
    point = f"CASE WHEN {fraction} = 0 THEN '' ELSE concat('.', trim(TRAILING '0' FROM {digits})) END"
    minus = f"CASE WHEN {within} < 0 THEN '-' ELSE '' END"
    noun = f"CASE WHEN {days} = 1 THEN ' day' ELSE ' days' END"
    return (
        f"CASE WHEN {x} IS NULL THEN CAST(NULL AS STRING) ELSE concat_ws(' ', "
        f"CASE WHEN {days} <> 0 THEN concat(CAST({days} AS STRING), {noun}) END, "
        f"CASE WHEN {within} <> 0 OR {x} = 0 THEN concat({minus}, {clock}, {point}) END) END"
    )


def _field(sql: str, infinite: str, digits: tuple[int, int], typed: Typed) -> Typed:
    held = numerics.decimal(digits)
    return Typed(
        sql=f"CAST({_finite(sql, infinite, 'BIGINT')} AS {held})", type=NUMERIC, digits=digits, **merged_flags(typed)
    )


def _seconds(microseconds: str, typed: Typed) -> Typed:
    """Microseconds as a numeric with six digits after the point."""
    sql = f"CAST((CAST({microseconds} AS DECIMAL(20,0)) / 1000000) AS DECIMAL(20,6))"
    return Typed(sql=sql, type=NUMERIC, digits=(20, 6), **merged_flags(typed))


def _finite(sql: str, infinite: str, kind: str) -> str:
    return f"(CASE WHEN {infinite} THEN CAST(raise_error('infinity') AS {kind}) ELSE {sql} END)"


def _checked(sql: str, bounds: tuple[int, int], kind: str) -> str:
    """Spark fails where PostgreSQL has no such date."""
    low, high = bounds

    def checked(x: str) -> str:
        return f"CASE WHEN {x} < {low}L OR {x} > {high}L THEN CAST(raise_error('out of range') AS {kind}) ELSE {x} END"

    return bound(sql, checked)


def _is_infinite(sql: str) -> str:
    return f"{sql} IN ({MOMENT_INFINITY}L, {smallest_bigint()})"


def _is_infinite_date(sql: str) -> str:
    return f"{sql} IN ({DATE_INFINITY}, CAST({DATE_MINUS_INFINITY} AS INT))"


def _day(days: str) -> str:
    return f"date_add(DATE'2000-01-01', {days})"


def _midnight(day: str) -> str:
    return f"(CAST(datediff({day}, DATE'2000-01-01') AS BIGINT) * {DAY_US}L)"
