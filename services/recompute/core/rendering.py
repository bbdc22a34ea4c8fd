"""Canonical text from Spark as the text that the subscriber's own connection would print."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import copysign, inf, isfinite, nextafter
from struct import pack, unpack
from typing import TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType
from services.recompute.core.storage import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    DAY_US,
    EPOCH_DAY,
    MOMENT_INFINITY,
    MOMENT_MINUS_INFINITY,
)

Renderer: TypeAlias = Callable[[str], bytes]

# What the log prints under.
PINNED = TextSettings(
    time_zone=PINNED_TEXT_SETTINGS["TimeZone"],
    date_style=PINNED_TEXT_SETTINGS["DateStyle"],
    interval_style=PINNED_TEXT_SETTINGS["IntervalStyle"],
    bytea_output=PINNED_TEXT_SETTINGS["bytea_output"],
    extra_float_digits=int(PINNED_TEXT_SETTINGS["extra_float_digits"]),
)
# One array: the offsets of the session's TimeZone, every day. Zone tables of different years differ.
ZONE_PROBE = (
    "SELECT pg_catalog.array_agg(extract(timezone FROM at)::pg_catalog.int4 ORDER BY at) "
    "FROM pg_catalog.generate_series("
    "'1970-01-01 00:00:00+00'::timestamptz, '2100-01-01 00:00:00+00'::timestamptz, '24 hours'::interval) AS at"
)
_YEAR_1970 = -946_684_800_000_000
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_CYCLE_DAYS = 146_097  # of 400 years, after which calendar and weekdays repeat
_WIDE = Context(prec=400, rounding=ROUND_HALF_UP)

# Types that print the same under every setting, and those that need one to be as it is in the log.
_AS_IS = frozenset(
    (
        *("int2", "int4", "int8", "oid", "numeric", "text", "varchar", "bpchar", "name", "char", "uuid", "unknown"),
        *("json", "jsonb", "xml", "jsonpath", "inet", "cidr", "macaddr", "macaddr8", "bit", "varbit", "time", "timetz"),
        *("tsvector", "tsquery", "int4range", "int8range", "numrange", "int4multirange", "int8multirange", "xid"),
        *("nummultirange", "pg_lsn", "xid8", "tid", "cid", "int2vector", "oidvector"),
        *("_int2", "_int4", "_int8", "_oid", "_numeric", "_text", "_varchar", "_bpchar", "_name", "_uuid", "_bool"),
        *("_json", "_jsonb", "_inet", "_cidr", "_macaddr", "_bit", "_varbit", "_time", "_timetz", "_int4range"),
        *("_int8range", "_numrange", "_tsvector", "_tsquery", "_char"),
    )
)
_ISO = frozenset(("_date", "_timestamp", "daterange", "tsrange", "datemultirange", "tsmultirange", "_daterange"))
_ISO_IN_UTC = frozenset(("_timestamptz", "tstzrange", "tstzmultirange", "_tstzrange"))
_FLOATS = frozenset(("_float4", "_float8", "point", "lseg", "path", "box", "polygon", "line", "circle", "_point"))
_INTERVALS = frozenset(("interval", "_interval"))
_BYTES = frozenset(("bytea", "_bytea"))
# These depend on what no text setting says: lc_monetary, the search_path.
_NEVER = frozenset(("money", "_money"))
_UTC_NAMES = frozenset(("utc", "gmt", "uct", "zulu", "universal", "greenwich", "gmt0", "gmt+0", "gmt-0"))


class Unrenderable(Exception):
    """The text of a type, or of this value, is not known under these settings: PostgreSQL prints it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def renderer(t: PgType, settings: TextSettings) -> Renderer:
    """What prints canonical values of a type; `as_is` itself where the canonical text is PostgreSQL's."""
    if t.kind == "b" and t.name in _SPECIAL:
        return _SPECIAL[t.name](settings)
    if t.kind == "e" or (t.kind in ("b", "r", "m") and t.name in _AS_IS):
        return as_is
    if _is_never(t.name):
        raise Unrenderable(f"type {t.name}")
    wanted = _needed(t)
    missing = [name for name, holds in _held(settings).items() if name in wanted and not holds]
    if missing:
        raise Unrenderable(f"type {t.name} under this {missing[0]}")
    return as_is


def is_utc(time_zone: str) -> bool:
    return time_zone.lower().removeprefix("etc/") in _UTC_NAMES


def as_is(canonical: str) -> bytes:
    return canonical.encode()


def _needed(t: PgType) -> frozenset[str]:
    """The settings that a text from the log depends on; all of them where nothing is known of the type."""
    for names, needed in (
        (_ISO, ("DateStyle",)),
        (_ISO_IN_UTC, ("DateStyle", "TimeZone")),
        (_FLOATS, ("extra_float_digits",)),
        (_INTERVALS, ("IntervalStyle",)),
        (_BYTES, ("bytea_output",)),
    ):
        if t.name in names:
            return frozenset(needed)
    return frozenset(("DateStyle", "TimeZone", "extra_float_digits", "IntervalStyle", "bytea_output"))


def _held(settings: TextSettings) -> dict[str, bool]:
    return {
        "DateStyle": _is_iso(settings),
        "TimeZone": is_utc(settings.time_zone),
        "extra_float_digits": settings.extra_float_digits >= 1,
        "IntervalStyle": settings.interval_style.lower() == "postgres",
        "bytea_output": settings.bytea_output.lower() == "hex",
    }


def _is_never(name: str) -> bool:
    return name in _NEVER or name.lstrip("_").startswith("reg")


def _is_iso(settings: TextSettings) -> bool:
    return settings.date_style.split(",")[0].strip().lower() == "iso"


def _boolean(_settings: TextSettings) -> Renderer:
    return {"true": b"t", "false": b"f"}.__getitem__


def _numeric(_settings: TextSettings) -> Renderer:
    return lambda canonical: canonical.encode() if " " not in canonical else _finished(canonical).encode()


def _finished(canonical: str) -> str:
    """A numeric whose last steps Spark left to us, in postfix: `7 3 /`, `7 3 / 2 round`."""
    stack: list[Decimal] = []
    for word in canonical.split(" "):
        if word == "/":
            divisor = stack.pop()
            stack.append(_quotient(stack.pop(), divisor))
        elif word == "round":
            places = int(stack.pop())
            stack.append(_rounded(stack.pop(), places))
        else:
            stack.append(Decimal(word))
    (value,) = stack
    return f"{abs(value) if value == 0 else value:f}"


def _rounded(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-max(places, 0)), context=_WIDE) if places >= 0 else _coarse(value, places)


def _coarse(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), context=_WIDE).quantize(Decimal(1), context=_WIDE)


def _quotient(dividend: Decimal, divisor: Decimal) -> Decimal:
    """PostgreSQL's numeric division: select_div_scale in numeric.c, then rounding half away from zero."""
    if divisor == 0:
        raise Unrenderable("division by zero")
    (weight1, first1), (weight2, first2) = _leading(dividend), _leading(divisor)
    weight = weight1 - weight2 - (1 if first1 <= first2 else 0)
    scale = max(16 - weight * 4, _scale(dividend), _scale(divisor), 0)
    scale = min(scale, 1000)
    return _WIDE.divide(dividend, divisor).quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def _leading(value: Decimal) -> tuple[int, int]:
    """The place and the value of the first digit that is not 0, in base 10000."""
    if value == 0:
        return 0, 0
    place = value.adjusted() // 4
    return place, int(abs(value).scaleb(-4 * place, context=_WIDE))


def _float8(settings: TextSettings) -> Renderer:
    _require_shortest(settings)
    return lambda canonical: _float_text(_shortest_float8(float(canonical)), 15).encode()


def _float4(settings: TextSettings) -> Renderer:
    _require_shortest(settings)
    return lambda canonical: _float_text(_shortest_float4(float(canonical)), 6).encode()


def _require_shortest(settings: TextSettings) -> None:
    if settings.extra_float_digits < 1:
        raise Unrenderable(f"floats under extra_float_digits {settings.extra_float_digits}")


def _shortest_float8(value: float) -> str:
    """Python's shortest digits, but for those that lie halfway to a neighbour: PostgreSQL takes one more digit then."""
    text = repr(value)
    if not 2.0**53 <= abs(value) < inf or _is_within(text, value, nextafter(value, inf), nextafter(value, -inf)):
        return text
    return _inside(value, nextafter(value, inf), nextafter(value, -inf))


def _shortest_float4(value: float) -> str:
    if value == 0 or not isfinite(value):
        return repr(value)
    (bits,) = unpack("i", pack("f", value))
    away = unpack("f", pack("i", bits + 1))[0]
    return _inside(value, away if isfinite(away) else copysign(2.0**128, value), unpack("f", pack("i", bits - 1))[0])


def _inside(value: float, *neighbours: float) -> str:
    for digits in range(17):
        nearest = Decimal(f"{value:.{digits}e}")
        step = Decimal(1).scaleb(nearest.adjusted() - digits)
        # At a power of two the lower neighbour is nearer than the upper: the second best may be the one inside.
        beyond = nearest - step if Fraction(nearest) > Fraction(value) else nearest + step
        for candidate in (nearest, beyond):
            if _is_within(str(candidate), value, *neighbours):
                return str(candidate)
    return repr(value)


def _is_within(text: str, value: float, *neighbours: float) -> bool:
    """Whether a text is nearer to the value than to either neighbour."""
    exact = Fraction(value)
    off = Fraction(text) - exact
    gaps = (Fraction(other) - exact for other in neighbours if isfinite(other))
    return all(abs(2 * off) < abs(gap) for gap in gaps if off * gap > 0)


def _float_text(shortest: str, most_digits: int) -> str:
    """Shortest digits as PostgreSQL lays them out: an exponent below 1e-4 and from 1e15 (float4: 1e6) on."""
    if shortest in ("nan", "inf", "-inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[shortest]
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    minus = "-" if sign else ""
    if digits == (0,):
        return f"{minus}0"
    text, power = "".join(map(str, digits)), len(digits) - 1 + int(exponent)
    if -4 <= power < most_digits:
        return f"{Decimal(shortest).normalize():f}"
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02}"


def _date(settings: TextSettings) -> Renderer:
    _require_iso(settings)
    return lambda canonical: _date_text(int(canonical)).encode()


def _date_text(days: int) -> str:
    if days in (DATE_INFINITY, DATE_MINUS_INFINITY):
        return "infinity" if days == DATE_INFINITY else "-infinity"
    text, era = _calendar(days)
    return text + era


def _calendar(days: int) -> tuple[str, str]:
    """The ISO date, and the era that ends the whole text."""
    cycles, within = divmod(days, _CYCLE_DAYS)
    day = date.fromordinal(EPOCH_DAY + within)
    year = day.year + 400 * cycles
    return f"{year if year > 0 else 1 - year:04}-{day.month:02}-{day.day:02}", "" if year > 0 else " BC"


def _timestamp(settings: TextSettings) -> Renderer:
    _require_iso(settings)
    return lambda canonical: _moment_text(int(canonical), "").encode()


def _moment_text(moment: int, offset: str) -> str:
    if moment in (MOMENT_INFINITY, MOMENT_MINUS_INFINITY):
        return "infinity" if moment == MOMENT_INFINITY else "-infinity"
    days, rest = divmod(moment, DAY_US)
    text, era = _calendar(days)
    seconds, fraction = divmod(rest, 1_000_000)
    point = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{text} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{offset}{era}"


def _timestamptz(settings: TextSettings) -> Renderer:
    _require_iso(settings)
    if is_utc(settings.time_zone):
        return lambda canonical: _moment_text(int(canonical), "+00").encode()
    zone = zone_named(settings.time_zone)
    return lambda canonical: _zoned_text(int(canonical), zone).encode()


def _zoned_text(moment: int, zone: ZoneInfo) -> str:
    if moment in (MOMENT_INFINITY, MOMENT_MINUS_INFINITY):
        return _moment_text(moment, "")
    if moment < _YEAR_1970:
        # Builds of the zone tables differ in what they keep of the time before.
        raise Unrenderable("a moment before 1970 in a named time zone")
    offset = offset_seconds(moment, zone)
    hours, rest = divmod(abs(offset), 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{'-' if offset < 0 else '+'}{hours:02}"
    if minutes or seconds:
        text += f":{minutes:02}"
    if seconds:
        text += f":{seconds:02}"
    return _moment_text(moment + offset * 1_000_000, text)


def offset_seconds(moment: int, zone: ZoneInfo) -> int:
    """Seconds east of UTC from 1970 on; after the year 9999, where Python's calendar ends, the last rules go on."""
    seconds, cycle = moment // 1_000_000, _CYCLE_DAYS * 86_400
    if seconds >= 15 * cycle:
        seconds = 14 * cycle + seconds % cycle
    found = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    return int(found.total_seconds()) if found is not None else 0


def zone_agrees(name: str, offsets: Sequence[int]) -> bool:
    """Whether PostgreSQL's table of a zone is ours, by what it answered to ZONE_PROBE."""
    if is_utc(name):
        return True
    step = timedelta(hours=24)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        zone = zone_named(name)
    except Unrenderable:
        return False
    ours = ((start + step * number).astimezone(zone).utcoffset() for number in range(len(offsets)))
    return len(offsets) > 0 and all(
        found is not None and found == timedelta(seconds=seconds) for found, seconds in zip(ours, offsets, strict=True)
    )


def zone_named(name: str) -> ZoneInfo:
    if name not in _zones():
        raise Unrenderable(f"time zone {name}")
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - {"Factory", "localtime"}


def _require_iso(settings: TextSettings) -> None:
    if not _is_iso(settings):
        raise Unrenderable(f"dates under DateStyle {settings.date_style}")


_SPECIAL: dict[str, Callable[[TextSettings], Renderer]] = {
    "bool": _boolean,
    "numeric": _numeric,
    "float4": _float4,
    "float8": _float8,
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
}
