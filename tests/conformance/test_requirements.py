"""Every requirement of the doors that stand and every golden vector is named by a test; every cited number exists.

A number counts where a function of the tests has it in its name (`test_v12_…`) or, by itself, in its docstring. Ranges
count for nothing: V1–V62 would be said quickly.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.conformance.kalamdb import TOPIC_VECTORS
from tests.conformance.pg_reactive import NOTIFY_VECTORS
from tests.conformance.skeindb import CDC_VECTORS
from tests.conformance.vectors import VECTORS

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SPECIFICATION = ROOT / "docs" / "spec"
# fmt: off
REQUIREMENTS = (
    "V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V13", "V14", "V15", "V16", "V17",
    "V18", "V19", "V20", "V21", "V22", "V23", "V24", "V25", "V26", "V27", "V28", "V29", "V30", "V31", "V32", "V33",
    "V34", "V35", "V36", "V37", "V38", "V39", "V40", "V41", "V42", "V43", "V44", "V45", "V46", "V47", "V48", "V49",
    "V50", "V51", "V52", "V53", "V54", "V55", "V56", "V57", "V58", "V59", "V60", "V61", "V62",
    "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15", "P16", "P17",
    "P18", "P19", "P20", "P21", "P22", "P23", "P24", "P25", "P26", "P27", "P28", "P29", "P30", "P31", "P32", "P33",
    "P34", "P35", "P36",
    "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13", "S14", "S15", "S16", "S17",
    "S18", "S19", "S20", "S21", "S22", "S23", "S24", "S25", "S26", "S27", "S28", "S29", "S30", "S31", "S32", "S33",
    "S34", "S35", "S36", "S37", "S38", "S39", "S40", "S41", "S42", "S43", "S44",
    "K1", "K2", "K3", "K4", "K5", "K6", "K7", "K8", "K9", "K10", "K11", "K12", "K13", "K14", "K15", "K16", "K17",
    "K18", "K19", "K20", "K21", "K22", "K23", "K24", "K25", "K26", "K27", "K28", "K29",
    "KR1", "KR2", "KR3", "KR4", "KR5",
)
# fmt: on
_RANGE = re.compile(r"(?:[VPSK]|KR)\d+\s*[–-]\s*(?:[VPSK]|KR)?\d+")
_NUMBER = re.compile(r"\b(?:[VPSK]|KR)\d+\b")
_SPECIFIED = re.compile(r"^- \*\*([VPSK]R?\d+)\*\* ", re.MULTILINE)
_DECIDED = re.compile(r"^(\d+)\. \*\*", re.MULTILINE)
_CITED = re.compile(r"\b[VPSK]R?[1-9]\d*\b")
_CITED_DECISIONS = re.compile(r"\b[Dd]ecisions? (\d+(?:(?:, | and |–)\d+)*)")
_IN_NAME = re.compile(r"(?<=_)(?:[vpsk]|kr)\d+(?=_)")


def sources():
    for path in sorted(TESTS.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def functions(tree):
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def numbers_of(function):
    words = _RANGE.sub("", ast.get_docstring(function) or "")
    return {*_NUMBER.findall(words), *(name.upper() for name in _IN_NAME.findall(f"{function.name}_"))}


@pytest.fixture(scope="module")
def named():
    """Each number with the functions that name it."""
    found: dict[str, list[str]] = {}
    for path, tree in sources():
        for function in functions(tree):
            for number in numbers_of(function):
                found.setdefault(number, []).append(f"{path.relative_to(TESTS)}::{function.name}")
    return found


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_a_requirement_is_named_by_a_test(named, requirement):
    assert named.get(requirement), f"no test names {requirement}"


def test_every_kind_of_vector_is_claimed_by_a_test():
    """A claim is the literal `of_kind("…")` over a test function."""
    claimed = {
        argument.value
        for _, tree in sources()
        for function in functions(tree)
        if function.name.startswith("test_")
        for call in function.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "of_kind"
        for argument in call.args
    }
    assert {vector["kind"] for vector in VECTORS} - claimed == set()


def test_every_vector_of_the_cdc_door_is_claimed_by_a_test():
    """A claim is the vector's id, or the beginning of it in `of_cdc("…")`, in a test's source."""
    texts = [path.read_text() for path, _ in sources() if path != Path(__file__)]
    claimed = {name for text in texts for name in re.findall(r"\bsk\.[a-z0-9_.]+", text)}
    unclaimed = [
        vector["id"]
        for vector in CDC_VECTORS
        if not any(
            vector["id"] == name.rstrip(".") or (name.endswith(".") and vector["id"].startswith(name))
            for name in claimed
        )
    ]
    assert unclaimed == []


def imported(tree):
    """The modules from which a test's source takes names."""
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def kinds_of(function):
    """The kinds in the `of_kind("…")` over a function."""
    calls = (call for call in function.decorator_list if isinstance(call, ast.Call) and isinstance(call.func, ast.Name))
    return {argument.value for call in calls if call.func.id == "of_kind" for argument in call.args}


def test_every_vector_of_the_notify_door_is_claimed_by_a_test_that_asserts():
    """A claim is the vector's id in the docstring of a test, or its kind in the `of_kind("…")` over one."""
    names, kinds = set(), set()
    for _, tree in sources():
        for function in functions(tree):
            if function.name.startswith("test_") and asserts_something(function):
                names |= set(re.findall(r"\bpgr\.[a-z_]+(?:\.[a-z_]+)*", ast.get_docstring(function) or ""))
                kinds |= kinds_of(function) if "tests.conformance.pg_reactive" in imported(tree) else set()
    unclaimed = [one["id"] for one in NOTIFY_VECTORS if one["id"] not in names and one["kind"] not in kinds]
    assert unclaimed == []


def test_every_vector_of_the_topics_door_is_claimed_by_a_test():
    """A claim is the vector's id in `of_topics("…")` or `topic_vector("…")`, or in a test's docstring."""
    texts = [path.read_text() for path, _ in sources() if path != Path(__file__)]
    claimed = {name.rstrip(".") for text in texts for name in re.findall(r"\bk\.[a-z0-9_.]+", text)}
    assert [vector["id"] for vector in TOPIC_VECTORS if vector["id"] not in claimed] == []


# The list of section 9 of the CDC door's original document, each with the test that is it.
ACCEPTANCE = (
    "test_ordering_preserved_per_stream",
    "test_offsets_monotonic",
    "test_s21_acknowledged_offsets_suppress_redelivery_for_older_polls",
    "test_acknowledged_offsets_survive_restart_until_close",
    "test_pause_and_resume_state_survives_restart",
    "test_poll_sse_and_websocket_expose_backpressure_state_transitions",
    "test_sse_resumes_from_last_event_id_or_from_offset",
    "test_websocket_resumes_from_last_event_id_or_from_offset",
    "test_retained_horizon_loss_returns_resnapshot_required_for_poll",
    "test_retained_horizon_loss_emits_event_resnapshot_for_sse_reconnects",
    "test_retained_horizon_loss_emits_a_resnapshot_control_frame_for_websocket_reconnects",
    "test_query_dependencies_expand_views_set_operation_branches_and_cte_definitions",
    "test_closed_subscriptions_return_not_found",
)


def test_s44_each_case_of_the_acceptance_list_is_a_test():
    names = {function.name for _, tree in sources() for function in functions(tree)}
    assert set(ACCEPTANCE) - names == set()
    assert len(ACCEPTANCE) == 13


# The boxes of the validation checklist of the topics door's original document, each with the test that is it.
CHECKLIST = (
    "test_system_tables_exist_and_are_queryable",
    "test_create_topic_persists_metadata",
    "test_alter_topic_add_source_creates_route",
    "test_change_events_append_to_topic_logs",
    "test_consume_supports_earliest_latest_and_offset",
    "test_ack_updates_offsets_correctly",
    "test_retention_job_prunes_old_log_entries",
)


def test_k29_each_box_of_the_validation_checklist_is_a_test():
    names = {function.name for _, tree in sources() for function in functions(tree)}
    assert set(CHECKLIST) - names == set()
    assert len(CHECKLIST) == 7


def test_ranges_name_nothing():
    (function,) = functions(ast.parse("def test_v3_x_kr5():\n    'K7, V8–V11, V12-14, KR1–KR5, K1–3, decision 15'"))
    assert numbers_of(function) == {"V3", "KR5", "K7"}


def numbered(letter: str, last: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, last + 1)]


@pytest.mark.parametrize(
    ("page", "letter", "last", "planned"),
    [("binary", "V", 62, 3), ("notify", "P", 36, 0), ("cdc", "S", 44, 5), ("topics", "K", 29, 6)],
)
def test_a_door_s_page_has_each_of_its_numbers_once_and_in_order(page, letter, last, planned):
    listed = _SPECIFIED.findall((SPECIFICATION / f"{page}.md").read_text())
    assert listed == numbered(letter, last) + numbered(f"{letter}R", planned)


def test_the_decisions_are_numbered_without_gaps():
    listed = _DECIDED.findall((SPECIFICATION / "decisions.md").read_text())
    assert listed == [str(number) for number in range(1, len(listed) + 1)]


def citing():
    """Each text that may cite a number, with its path: all but the specification itself."""
    kinds = ("*.py", "*.proto", "*.sql", "*.md", "*.toml")
    listed = subprocess.run(["git", "ls-files", *kinds], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.exists() and not path.is_relative_to(SPECIFICATION) and path != Path(__file__):
            yield name, path.read_text()


def test_every_number_that_is_cited_exists_in_the_specification():
    pages = [page.read_text() for page in SPECIFICATION.glob("*.md")]
    specified = {number for page in pages for number in _SPECIFIED.findall(page)}
    unknown = {
        f"{name}: {number}" for name, text in citing() for number in _CITED.findall(text) if number not in specified
    }
    assert unknown == set()


def test_every_decision_that_is_cited_exists():
    decided = set(_DECIDED.findall((SPECIFICATION / "decisions.md").read_text()))
    cited = {
        f"{name}: decision {number}"
        for name, text in citing()
        for numbers in _CITED_DECISIONS.findall(text)
        for number in re.findall(r"\d+", numbers)
        if number not in decided
    }
    assert cited == set()


def asserts_something(function) -> bool:
    """Whether a test can fail by its own word: an assert, a `raises`, or a call of a helper that asserts."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and _HELPER.match(ast.unparse(node.func).rpartition(".")[2]))
        for node in ast.walk(function)
    )


_HELPER = re.compile(r"raises|assert|check|expect|wait_until|until|refused|compare|verify|told")


def test_every_test_that_names_a_requirement_asserts_something():
    silent = [
        f"{path.relative_to(TESTS)}::{function.name}"
        for path, tree in sources()
        for function in functions(tree)
        if function.name.startswith("test_") and numbers_of(function) and not asserts_something(function)
    ]
    assert silent == []
