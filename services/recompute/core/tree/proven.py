"""What Spark is proven to compute as PostgreSQL does, by the oid that PostgreSQL's tree names it with.

Each stands under its name in pg_catalog; the oids of built-in objects are the same in every version. The proof is in
tests/integration/recompute/functions and tests/exact.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Operators of expressions: of OpExpr, IS DISTINCT FROM, NULLIF, IN and ANY.
OPERATORS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "!~~": (1210, 1212),
        "!~~*": (1628,),
        "%": (439, 529, 530, 1762),
        "&": (1874, 1880, 1886),
        "*": (514, 526, 544, 545, 589, 594, 686, 690, 694, 820, 824, 1119, 1129, 1760),
        "+": (
            *(
                550,
                551,
                552,
                553,
                586,
                591,
                684,
                688,
                692,
                818,
                822,
                1076,
                1100,
                1116,
                1126,
                1327,
                1758,
                2066,
                2551,
                2553,
            ),
            *(2554, 2555),
        ),
        "-": (
            *(484, 554, 555, 556, 557, 558, 559, 584, 585, 587, 592, 685, 689, 693, 819, 823, 1077, 1099, 1101, 1117),
            *(1127, 1328, 1329, 1751, 1759, 2067, 2068),
        ),
        "/": (527, 528, 546, 547, 588, 593, 687, 691, 695, 821, 825, 1118, 1128, 1761),
        "<": (
            *(37, 58, 95, 97, 412, 418, 534, 535, 622, 660, 664, 672, 1058, 1095, 1122, 1132, 1322, 1332, 1754, 1864),
            *(1870, 2062, 2345, 2358, 2371, 2384, 2534, 2540, 2974),
        ),
        "<=": (
            *(
                80,
                414,
                420,
                522,
                523,
                540,
                541,
                624,
                661,
                665,
                673,
                1059,
                1096,
                1124,
                1134,
                1323,
                1333,
                1694,
                1755,
                1866,
            ),
            *(1872, 2063, 2346, 2359, 2372, 2385, 2535, 2541, 2976),
        ),
        "<>": (
            *(36, 85, 259, 411, 417, 518, 519, 531, 538, 539, 621, 643, 671, 1057, 1094, 1121, 1131, 1321, 1753, 1863),
            *(1869, 2061, 2350, 2363, 2376, 2389, 2539, 2545, 2973, 3517),
        ),
        "=": (
            *(15, 91, 93, 94, 96, 98, 254, 260, 410, 416, 532, 533, 620, 670, 1054, 1093, 1120, 1130, 1320, 1330),
            *(1752, 1862, 1868, 2060, 2347, 2360, 2373, 2386, 2536, 2542, 2972, 3516),
        ),
        ">": (
            *(59, 76, 413, 419, 520, 521, 536, 537, 623, 662, 666, 674, 1060, 1097, 1123, 1133, 1324, 1334, 1756, 1865),
            *(1871, 2064, 2349, 2362, 2375, 2388, 2538, 2544, 2975),
        ),
        ">=": (
            *(
                82,
                415,
                430,
                524,
                525,
                542,
                543,
                625,
                663,
                667,
                675,
                1061,
                1098,
                1125,
                1135,
                1325,
                1335,
                1695,
                1757,
                1867,
            ),
            *(1873, 2065, 2348, 2361, 2374, 2387, 2537, 2543, 2977),
        ),
        "|": (1875, 1881, 1887),
        "||": (654, 2779, 2780),
        "~~": (1209, 1211),
        "~~*": (1627,),
    }
)
# Functions, those among them that are casts too.
FUNCTIONS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "abs": (1394, 1395, 1396, 1397, 1398, 1705),
        "bool": (2557,),
        "bpchar": (668,),
        "btrim": (884, 885),
        "ceil": (1711, 2308),
        "ceiling": (2167, 2320),
        "char_length": (1372, 1381),
        "character_length": (1367,),
        "concat": (3058,),
        "concat_ws": (3059,),
        "date": (1178, 2029),
        "date_part": (1171, 1384, 2021),
        "date_trunc": (1217, 2020),
        "extract": (6199, 6202, 6203, 6204),
        "float4": (236, 318),
        "float8": (235, 311, 316, 482, 1746),
        "floor": (1712, 2309),
        "int2": (237, 238, 314, 714, 1783),
        "int4": (313, 317, 319, 480, 1744, 2558),
        "int8": (481, 483, 653, 754, 1779),
        "left": (3060,),
        "length": (1317, 1318),
        "like_escape": (1637,),
        "lower": (870,),
        "lpad": (873, 879),
        "ltrim": (875, 881),
        "md5": (2311,),
        "mod": (940, 941, 947, 1728),
        "now": (1299,),
        "numeric": (1703, 1740, 1781, 1782),
        "octet_length": (1374,),
        "position": (849,),
        "repeat": (1622,),
        "replace": (2087,),
        "reverse": (3062,),
        "right": (3061,),
        "round": (1342, 1707, 1708),
        "rpad": (874, 880),
        "rtrim": (876, 882),
        "sign": (1706, 2310),
        "split_part": (2088,),
        "starts_with": (3696,),
        "strpos": (868,),
        "substr": (877, 883),
        "substring": (936, 937),
        "text": (401, 406, 2971),
        "timestamp": (2024, 2027),
        "timestamptz": (1174, 2028),
        "timezone": (1159, 2069),
        "to_char": (1770, 2049),
        "transaction_timestamp": (2647,),
        "translate": (878,),
        "trunc": (1709, 1710),
        "upper": (871,),
        "varchar": (669,),
    }
)
# Aggregates, as such and as windows.
AGGREGATES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "array_agg": (2335,),
        "avg": (2100, 2101, 2102, 2103, 2105),
        "bool_and": (2517,),
        "bool_or": (2518,),
        "count": (2147, 2803),
        "every": (2519,),
        "max": (2115, 2116, 2117, 2119, 2120, 2122, 2126, 2127, 2129, 2130),
        "min": (2131, 2132, 2133, 2135, 2136, 2138, 2142, 2143, 2145, 2146),
        "string_agg": (3538,),
        "sum": (2107, 2108, 2109, 2111, 2114),
    }
)
# Functions of windows alone.
WINDOW_FUNCTIONS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "cume_dist": (3104,),
        "dense_rank": (3102,),
        "first_value": (3112,),
        "lag": (3106, 3107, 3108),
        "last_value": (3113,),
        "lead": (3109, 3110, 3111),
        "nth_value": (3114,),
        "ntile": (3105,),
        "percent_rank": (3103,),
        "rank": (3101,),
        "row_number": (3100,),
    }
)
# What rows are sorted, grouped and told apart by, under the name of the type that is compared.
SORTED: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "anyarray": (1070, 1072, 1073),
        "anyenum": (3516, 3518, 3519),
        "bool": (58, 59, 91),
        "bpchar": (1054, 1058, 1060),
        "bytea": (1955, 1957, 1959),
        "date": (1093, 1095, 1097),
        "float4": (620, 622, 623),
        "float8": (670, 672, 674),
        "int2": (94, 95, 520),
        "int4": (96, 97, 521),
        "int8": (410, 412, 413),
        "interval": (1330, 1332, 1334),
        "numeric": (1752, 1754, 1756),
        "text": (98, 664, 666),
        "time": (1108, 1110, 1112),
        "timestamp": (2060, 2062, 2064),
        "timestamptz": (1320, 1322, 1324),
        "uuid": (2972, 2974, 2975),
    }
)
# Casts without a function of their own: the types from and to, where the bytes stay as they are.
RELABELLED: Final = frozenset(
    ((1042, 1042), (1043, 25), (1043, 1043), (1700, 1700), (25, 1042), (1043, 1042), (25, 1043))
)
# Casts by the text of a value: from and to.
_NUMBERS_AND_UUID, _STRINGS = (20, 21, 23, 1700, 2950), (25, 1043)
BY_TEXT: Final = frozenset(
    (
        *((source, target) for source in _NUMBERS_AND_UUID for target in _STRINGS),
        *((source, target) for source in _STRINGS for target in (16, 20, 21, 23, 1082, 1700)),
        (23, 1042),
    )
)
# SQLValueFunction: CURRENT_DATE, CURRENT_TIMESTAMP, LOCALTIMESTAMP.
VALUE_FUNCTIONS: Final = frozenset((0, 3, 7))
