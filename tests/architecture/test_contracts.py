"""The contracts are in one place, current, and tell who writes and who reads."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import proto
from proto.topics import FLOW, flow_lines

ROOT = Path(__file__).parents[2]
SERVICES = ROOT / "services"
# Declared, and to be built in an existing service; the test fails once it is there, so that this stays true.
PROTOS = sorted((ROOT / "proto/tidewire/v1").glob("*.proto"))


def test_proto_is_ours_and_not_the_package_of_that_name():
    assert Path(proto.__file__).is_relative_to(ROOT)


def test_the_generated_modules_are_current(tmp_path: Path):
    names = [str(path.relative_to(ROOT)) for path in PROTOS]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, *names], cwd=ROOT, check=True)
    generated = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2.py*"))
    assert len(generated) == 2 * len(PROTOS)
    stale = [str(path) for path in generated if (ROOT / path).read_text() != (tmp_path / path).read_text()]
    assert stale == [], "run `make proto`"


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.name)
def test_each_topic_s_file_names_writer_readers_key_and_retention(path: Path):
    head = path.read_text().partition("syntax =")[0]
    assert f"Topic `{path.stem}`" in head
    for word in ("writer", "reader", "key", "retention"):
        assert re.search(rf"^//   {word}s?  +\S", head, re.MULTILINE), word


@pytest.mark.parametrize("topic", FLOW, ids=lambda topic: topic.name)
def test_the_head_of_its_file_and_its_declaration_name_the_same(topic):
    head = (ROOT / f"proto/tidewire/v1/{topic.name}.proto").read_text().partition("syntax =")[0]
    writer = re.search(r"writer +(.*)", head)[1]
    readers = re.search(r"readers? +(.*)", head)[1]
    assert writer.startswith(topic.written_by)
    assert all(reader in readers for reader in topic.read_by)


def built() -> set[str]:
    return {path.parent.name for path in SERVICES.glob("*/__main__.py")}


@pytest.mark.parametrize("topic", FLOW, ids=lambda topic: topic.name)
def test_the_tree_shows_who_writes_and_who_reads(topic):
    """Of the services that exist: a folder with `inbound` and `outbound` that can be started."""
    writers = {path.parts[-3] for path in SERVICES.glob(f"*/outbound/{topic.name}.py")}
    readers = {path.parts[-3] for path in SERVICES.glob(f"*/inbound/{topic.name}.py")}
    assert writers == {topic.written_by} & built()
    # A writer may read its own topic, to take it over or to serve from it.
    assert readers - {topic.written_by} == set(topic.read_by) & built() - {topic.written_by}


def test_no_service_spells_the_name_of_a_topic():
    names = {topic.name for topic in FLOW}
    spelled = []
    for path in SERVICES.rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if re.search(rf"(Reader|Writer|[Tt]opic)\w*\(.*[\"']({'|'.join(names)})[\"']", line):
                spelled.append(f"{path.relative_to(ROOT)}:{number}")
    assert spelled == []


def test_the_readme_shows_the_flow_as_it_is_declared():
    assert "\n".join(flow_lines()) in re.sub(r"^ {4}", "", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
