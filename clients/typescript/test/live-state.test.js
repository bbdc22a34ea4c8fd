import assert from "node:assert/strict";
import { test } from "node:test";

import { LiveState, MOST_STALE, MOST_WAITING } from "../dist/live-state.js";

const delta = (seq, inserted, deleted = [], gen = 1) => JSON.stringify({ query_id: "q", seq, gen, inserted, deleted });
const result = (seq, rows, gen = 1) => JSON.stringify({ query_id: "q", seq, gen, rows });
const control = (type, seq, gen = 1) => JSON.stringify({ type, query_id: "q", seq, gen });

function begun(seq = 5, rows = [{ a: 1 }], gaps = "refetch") {
  const state = new LiveState("q", JSON.parse, gaps);
  assert.equal(state.result(result(seq, rows)), "changed");
  return state;
}

test("P12: an update leaves and enters", () => {
  const state = begun();
  assert.equal(state.message(delta(6, [{ a: 2 }], [{ a: 1 }])), "changed");
  assert.deepEqual([state.set.rows, state.seq], [[{ a: 2 }], 6]);
});

test("P19: after an overflow only a result that has seen it counts", () => {
  const state = begun();
  assert.equal(state.message(control("overflow", 6)), "refetch");
  assert.equal(state.result(result(5, [{ a: 1 }])), "refetch");
  assert.equal(state.result(result(6, [{ a: 9 }])), "changed");
  assert.deepEqual(state.set.rows, [{ a: 9 }]);
});

test("P20: the delta behind an overflow is an ordinary one", () => {
  const state = begun();
  state.message(control("overflow", 6));
  assert.equal(state.message(delta(7, [{ a: 8 }])), "nothing");
  assert.equal(state.result(result(6, [{ a: 9 }])), "changed");
  assert.deepEqual(state.set.rows, [{ a: 9 }, { a: 8 }]);
});

test("P21: an invalidation asks for the result", () => {
  assert.equal(begun().message(control("invalidated", 6)), "refetch");
});

test("P26: a gap is not guessed over, and what the result has seen is not applied twice", () => {
  const state = begun();
  assert.equal(state.message(delta(8, [{ a: 2 }])), "refetch");
  assert.deepEqual(state.set.rows, [{ a: 1 }]);
  assert.equal(state.result(result(8, [{ a: 1 }, { a: 2 }])), "changed");
  assert.equal(state.message(delta(8, [{ a: 2 }])), "nothing");
  assert.deepEqual(state.set.rows, [{ a: 1 }, { a: 2 }]);
});

test("P15: a gap may be trusted, as long as what follows fits", () => {
  const state = begun(5, [{ a: 1 }], "trust");
  assert.equal(state.message(delta(8, [{ a: 2 }])), "changed");
  assert.equal(state.message(delta(9, [], [{ a: 7 }])), "refetch");
});

test("P28: a message of another gen is never folded", () => {
  assert.equal(begun().message(delta(6, [{ a: 2 }], [], 2)), "reconnect");
  const state = begun();
  state.connected();
  state.message(delta(6, [{ secret: 1 }], [], 1));
  assert.equal(state.result(result(6, [], 2)), "reconnect");
  assert.deepEqual(state.set.rows, []);
});

test("P22, P24: control messages that are none of the client's change nothing", () => {
  const state = begun();
  assert.equal(state.message('{"type":"resubscribed","query_id":"q","gen":5}'), "nothing");
  assert.equal(state.message('{"type":"subscribed","query_id":"q"}'), "nothing");
  assert.equal(state.message('{"type":"of another age","query_id":"q"}'), "nothing");
});

test("a message of another query, or none at all, ends the connection", () => {
  for (const text of ["{", "null", '{"query_id":"other","seq":6,"gen":1,"inserted":[],"deleted":[]}', '{"query_id":"q","seq":6,"gen":1}', '{"query_id":"q","inserted":[],"deleted":[]}']) {
    assert.throws(() => begun().message(text), { code: "protocol" }, text);
  }
  assert.throws(() => begun().result('{"rows":[]}'), { code: "protocol" });
});

test("what waits for a result is bounded, and the result must then have seen it", () => {
  const state = new LiveState("q", JSON.parse);
  for (let seq = 1; seq <= MOST_WAITING + 1; seq++) state.message(delta(seq, []));
  assert.equal(state.result(result(MOST_WAITING, [])), "refetch");
  assert.equal(state.result(result(MOST_WAITING + 1, [])), "changed");
});

test("results that stay older than what is known are believed at last: the database was set back", () => {
  const state = begun(50);
  state.connected();
  for (let n = 1; n < MOST_STALE; n++) assert.equal(state.result(result(3, [])), "refetch");
  assert.equal(state.result(result(3, [])), "changed");
  assert.deepEqual(state.set.rows, []);
});

/** A small generator of chance, so that a failure can be repeated by its seed. */
function chance(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A server whose every state is remembered, and a client that hears of it with losses, repeats and late results. */
function history(seed, gaps) {
  const pick = chance(seed);
  const state = new LiveState("q", JSON.parse, gaps);
  const states = new Map();
  let [gen, seq, rows, folded, fetching, connection] = [1, 0, new Set([0, 1]), new Map(), true, 0];
  const connect = () => {
    state.connected();
    [fetching, connection] = [true, connection + 1];
  };
  const text = (n) => ({ n: n / 10, t: `row ${n}` });
  const remember = () => states.set(`${gen}/${seq}`, [...rows].sort().map((n) => JSON.stringify(text(n))).sort());
  const check = () => {
    const known = [...state.set.rows].map((row) => JSON.stringify(row)).sort();
    assert.deepEqual(known, states.get(`${state.gen}/${state.seq}`), `seed ${seed}: rows at ${state.gen}/${state.seq}`);
    const change = state.set.take();
    for (const row of change.deleted) assert.ok(folded.delete(JSON.stringify(row)), `seed ${seed}: left without having come`);
    for (const row of change.inserted) folded.set(JSON.stringify(row), row);
    assert.deepEqual([...folded.keys()].sort(), known, `seed ${seed}: the changes add up to the rows`);
  };
  const obey = (verdict) => {
    if (verdict === "refetch") fetching = true;
    if (verdict === "reconnect") connect();
    if (verdict === "changed") check();
  };
  const fetched = (late) => {
    const told = JSON.stringify({ seq, gen, rows: [...rows].map(text) });
    const asked = connection;
    for (let n = 0; n < late; n++) step();
    // What was asked for by an older connection is thrown away with it.
    if (asked !== connection) return;
    fetching = false;
    obey(state.result(told));
  };
  function step() {
    const sort = pick(20);
    if (sort === 0) [gen, rows] = [gen + 1, new Set([pick(9), pick(9)])];
    if (sort === 1) return connect();
    const [inserted, deleted] = [[], []];
    for (let n = 0; n < 8 && sort > 3; n++) if (pick(3) === 0) (rows.has(n) ? deleted : inserted).push(n);
    for (const n of deleted) rows.delete(n);
    for (const n of inserted) rows.add(n);
    seq++;
    remember();
    const message = { query_id: "q", seq, gen, inserted: inserted.map(text), deleted: deleted.map(text) };
    if (sort === 0) return connect();
    const lost = inserted.length + deleted.length === 0 || (sort === 4 && gaps === "refetch");
    if (lost) return;
    if (sort === 5) return obey(state.message(JSON.stringify({ type: "overflow", query_id: "q", seq, gen, fetch: true })));
    obey(state.message(JSON.stringify(message)));
    if (sort === 6) obey(state.message(JSON.stringify(message)));
  }
  remember();
  for (let n = 0; n < 60; n++) {
    if (fetching && pick(3) === 0) fetched(pick(4));
    else step();
  }
  while (fetching) fetched(0);
  return { known: [...state.set.rows].length, states: states.size };
}

for (const gaps of ["refetch", "trust"]) {
  test(`folding random deltas with gaps, overflows, repeats, late results and other gens is the server's set (${gaps})`, () => {
    let states = 0;
    for (let seed = 1; seed <= 1000; seed++) states += history(seed, gaps).states;
    assert.ok(states > 30_000);
  });
}
