"""Faults planted in a copy of the operators are seen by the comparison with the whole evaluation."""

import subprocess
from collections import Counter

import pytest

from services.recompute.outbound.spark.incremental import DIRECT_BYTES
from services.recompute.outbound.spark.operator_classes import COMPILE_WITHIN_S, SOURCES, class_folder
from tests.integration.recompute.evaluation.test_operators import QUERIES, World, compare, job_of, plan_all, taken

# For each fault: the file, the line that is replaced, what stands there instead, and the query that shows it.
FAULTS = {
    "none": ("Delta.java", "weights[rows.size()] = weight;", "weights[rows.size()] = weight;", "groups"),
    "stale_index": (
        "Join.java",
        "rightRows.change(key, row, weight).partners = partners;",
        "if (weight > 0) { rightRows.change(key, row, weight).partners = partners; }",
        "inner join",
    ),
    "missed_null_group": (
        "Aggregate.java",
        "Group group = groups.get(key);",
        "if (key.anyNull()) { continue; } Group group = groups.get(key);",
        "groups",
    ),
    "top_n_underflow": (
        "Ordered.java",
        "held[0] += weight;",
        "if (held[0] + weight < 0) { weight = 0; } held[0] += weight; "
        "while (count >= 0 && partition.rows.size() > skip + count) { partition.rows.pollLastEntry(); }",
        "first rows",
    ),
    "min_after_delete": (
        "Function.java",
        "values.merge(value, weight, (one, other) -> one + other == 0 ? null : one + other);",
        "if (weight > 0) { values.merge(value, weight, Integer::sum); }",
        "groups",
    ),
    "lost_negative_weight": ("Delta.java", "if (weight == 0) {", "if (weight <= 0) {", "filter"),
    "replayed_before_the_first_rows": ("Template.java", "waiting.clear();\n    waitingRows = 0;", "", "one group"),
}


@pytest.fixture(scope="module")
def faulty(spark, tmp_path_factory):
    """Builds engines with a fault: each fault is a package of its own, all of them compiled at once."""
    folder, classes = tmp_path_factory.mktemp("faults"), tmp_path_factory.mktemp("classes")
    for fault, (changed, line, planted, _) in FAULTS.items():
        (folder / fault).mkdir()
        for source in SOURCES.glob("*.java"):
            text = source.read_text().replace("package tidewire;", f"package fault_{fault};")
            if source.name == changed:
                assert text.count(line) == 1, f"{line} stands {text.count(line)} times in {changed}"
                text = text.replace(line, planted)
            if fault.startswith("replayed") and source.name == "Template.java":
                text = text.replace("if (!isBegun) {", "if (false) {")
            (folder / fault / source.name).write_text(text)
    jars = spark.session.sparkContext._jvm.java.lang.System.getProperty("java.class.path")
    command = ["javac", "-proc:none", "-nowarn", "-d", str(classes), "-cp", jars, *map(str, folder.rglob("*.java"))]
    subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_WITHIN_S)
    assert class_folder() != classes

    def engine(fault):
        jvm, gateway = spark.session._jvm, spark.session.sparkContext._gateway
        urls = gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(str(classes)).toURI().toURL()
        parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        given = gateway.new_array(jvm.java.lang.Object, 1)
        given[0] = spark.session.newSession()._jsparkSession
        loaded = jvm.java.net.URLClassLoader(urls, parent).loadClass(f"fault_{fault}.Engine")
        return loaded.getConstructors()[0].newInstance(given)

    return engine


def _run(world, name) -> None:
    """Ticks before the rows are fixed, while they are built, and behind it, compared at every second."""
    jobs, states, orders = [job_of(QUERIES[name])], [Counter()], [Counter()]
    for _ in range(2):
        world.step(8)
    world.hold()
    world.load()
    plan_all(world, jobs)
    for tick in range(16):
        if tick == 2:
            world.operators.pin(0)
        if tick == 3:
            world.operators.build(0)
        for moved in world.operators.tick(world.step(4), {}):
            taken(states[0], orders[0], moved)
        if tick >= 3 and tick % 3 == 0:
            compare(world, [name], jobs, states, orders)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(spark, faulty, fault):
    world = World(spark, 3)
    engine = faulty(fault)
    engine.answerIn(str(spark.folder / "answer"), DIRECT_BYTES)
    world.operators._engine = engine
    name = FAULTS[fault][3]
    if fault == "none":
        _run(world, name)
        return
    # Either the rows differ, or an operator is asked to take back what it never had.
    with pytest.raises(AssertionError, match=f"^{name}|that was not in it"):
        _run(world, name)
