"""The TypeScript client by itself (issue 14): its own tests, its README, what npm packs."""

import json
import re
import subprocess
import tarfile

from tests.fixtures.installed import PROJECT
from tests.fixtures.npm_package import SOURCE

FILES = sorted(("rows", "live-state", "sse", "live", "cdc", "topic"))


def test_its_own_tests_pass(npm_package):
    """P12 to P35 and S22 to S37 as the client meets them, against a scripted server; folding deltas as a property."""
    told = npm_package.node("--test", *(f"test/{name}.test.js" for name in FILES))
    passed = int(re.search(r"^# pass (\d+)$", told, re.MULTILINE)[1])
    assert passed >= 60, told[-2000:]
    assert re.search(r"^# (fail|skipped|todo|cancelled) [1-9]", told, re.MULTILINE) is None


def test_each_test_file_is_run():
    assert sorted(path.name.removesuffix(".test.js") for path in (SOURCE / "test").glob("*.test.js")) == FILES


def test_what_npm_packs_can_be_installed_and_imported(npm_package, tmp_path):
    """No dependency, types beside every module, and nothing but the built files."""
    subprocess.run(
        ["npm", "pack", "--ignore-scripts", "--pack-destination", tmp_path],
        cwd=npm_package.folder,
        check=True,
        capture_output=True,
    )
    [archive] = tmp_path.glob("*.tgz")
    home = tmp_path / "node_modules" / "@tidewire"
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    (home / "package").rename(home / "client")
    declared = json.loads((home / "client" / "package.json").read_text())
    assert "dependencies" not in declared
    names = {path.relative_to(home / "client").as_posix() for path in (home / "client").rglob("*") if path.is_file()}
    modules = {name for name in names if name.endswith(".js")}
    assert names == {"package.json", "README.md"} | modules | {name[:-3] + ".d.ts" for name in modules}
    program = "import * as all from '@tidewire/client'; console.log(Object.keys(all).sort().join())"
    (tmp_path / "program.mjs").write_text(program)
    told = npm_package.node(tmp_path / "program.mjs").strip()
    assert told == "CdcSubscription,LiveQuery,ResnapshotRequired,TidewireError,Topic,cdc,live,topic"


def test_the_types_tell_what_a_page_gets(npm_package):
    """A wrong use does not compile; the right one does, by the declarations alone."""
    folder = npm_package.folder / "typed"
    folder.mkdir()
    good = "import { live } from '../dist/index.js';\nfor await (const c of live<{ id: number }>('http://x', 'q')) "
    (folder / "good.mts").write_text(good + "c.rows[0]!.id.toFixed();\n")
    (folder / "wrong.mts").write_text(good + "c.rows[0]!.name.trim();\n")
    flags = ("--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022")
    done = subprocess.run(
        ["node", "node_modules/typescript/bin/tsc", *flags, "typed/good.mts", "typed/wrong.mts"],
        cwd=npm_package.folder,
        capture_output=True,
        text=True,
    )
    [told] = done.stdout.splitlines()
    assert told.startswith("typed/wrong.mts(2,")
    assert "Property 'name' does not exist" in told


def test_the_example_of_the_readme_runs(npm_package):
    """Each js block, one program after another, against a server that plays the gateway."""
    blocks = re.findall(r"```js\n(.*?)```", (npm_package.folder / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        (npm_package.folder / f"example-{number}.mjs").write_text(block.replace("@tidewire/client", "./dist/index.js"))
    told = npm_package.node("test/programs/run-examples.js").splitlines()
    assert told == [
        "example 0: live 2 rows | live 3 rows",
        "example 1: insert [ 7 ]",
        "example 2: Insert { id: 9 }",
    ]


def test_the_demo_s_copy_of_the_client_is_current(npm_package):
    """`make demo` needs no npm: its page has the built client, for browsers only. `npm run page` makes it anew."""
    made = npm_package.esbuild("dist/index.js", "--bundle", "--format=esm", "--charset=utf8")
    assert made == (PROJECT / "services/devstack/page/tidewire.js").read_text()
    assert "node:http" not in made
