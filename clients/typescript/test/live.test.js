import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { live } from "../dist/index.js";
import { ScriptedServer, TOKEN, until } from "./scripted-server.js";

const FAST = { firstMs: 10, longestMs: 50 };
let server, statuses, open;

beforeEach(async () => {
  [server, statuses, open] = [await ScriptedServer.start("q"), [], []];
  server.commit({ inserted: [{ id: 1 }] });
});

afterEach(async () => {
  for (const query of open) query.close();
  await server.stop();
});

function follow(options = {}) {
  const query = live(server.url, "q", { token: TOKEN, retry: FAST, spreadMs: 1, onStatus: (status) => statuses.push(status), ...options });
  open.push(query);
  return query;
}

const taken = async (query) => (await query.next()).value;
const ids = (change) => change.rows.map((row) => row.id).sort();

test("the rows come first, then what changed in them", async () => {
  const query = follow();
  assert.deepEqual(await taken(query), { inserted: [{ id: 1 }], deleted: [], rows: [{ id: 1 }], seq: 1, gen: 1 });
  server.commit({ inserted: [{ id: 2 }], deleted: [{ id: 1 }] });
  assert.deepEqual(await taken(query), { inserted: [{ id: 2 }], deleted: [{ id: 1 }], rows: [{ id: 2 }], seq: 2, gen: 1 });
  assert.equal(server.results, 1);
  assert.equal(server.peer.request.headers.authorization, `Bearer ${TOKEN}`);
});

test("an empty result is told too", async () => {
  server.commit({ deleted: [{ id: 1 }] });
  assert.deepEqual((await taken(follow())).rows, []);
});

test("P35: an overflow ends in a refetch", async () => {
  const query = follow();
  await taken(query);
  server.commit({ inserted: [{ id: 2 }, { id: 3 }] }, "overflow");
  const change = await taken(query);
  assert.deepEqual([change.inserted, ids(change), server.results], [[{ id: 2 }, { id: 3 }], [1, 2, 3], 2]);
  assert.deepEqual(statuses.map((each) => each.state), ["connecting", "refetching", "live", "refetching", "live"]);
});

test("P35: a gap ends in a refetch", async () => {
  const query = follow();
  await taken(query);
  server.commit({ inserted: [{ id: 2 }] }, "lost");
  server.commit({ inserted: [{ id: 3 }] });
  assert.deepEqual(ids(await taken(query)), [1, 2, 3]);
  assert.equal(server.results, 2);
});

test("P21: in mode notify each invalidation fetches the rows", async () => {
  const query = follow();
  await taken(query);
  server.commit({ inserted: [{ id: 2 }] }, "invalidated");
  assert.deepEqual(ids(await taken(query)), [1, 2]);
});

test("decision 30: 4001 reconnects to the new gen", async () => {
  const query = follow();
  await taken(query);
  server.register([{ id: 7 }]);
  const change = await taken(query);
  assert.deepEqual([change.gen, change.deleted, ids(change), server.peers.length], [2, [{ id: 1 }], [7], 2]);
});

test("P28: a delta of a gen that is not the result's is not shown", async () => {
  const query = follow();
  await taken(query);
  server.peer.send({ query_id: "q", seq: 2, gen: 2, inserted: [{ id: "secret" }], deleted: [] });
  await until(() => server.peers.length === 2, "a new connection");
  server.commit({ inserted: [{ id: 2 }] });
  assert.deepEqual(ids(await taken(query)), [1, 2]);
});

test("decision 30: 4003 ends it with an error that says what to do", async () => {
  const query = follow();
  await taken(query);
  server.peer.close(4003);
  await assert.rejects(query.next(), { code: "no_longer_allowed", message: "you may no longer read 'q': ask for the right, then begin again" });
  assert.equal(query.status.state, "ended");
  assert.equal(server.peers.length, 1);
});

for (const code of [1012, 1013, 1011]) {
  test(`decision 30: after ${code} it comes back, and misses nothing`, async () => {
    const query = follow();
    await taken(query);
    server.peer.close(code);
    server.commit({ inserted: [{ id: 2 }] }, "lost");
    assert.deepEqual(ids(await taken(query)), [1, 2]);
    assert.match(statuses.find((each) => each.state === "waiting").reason, new RegExp(`ended \\(${code}`));
  });
}

test("a torn socket is opened again, and the same rows are not told twice", async () => {
  const query = follow();
  await taken(query);
  server.peer.tear();
  await until(() => server.results === 2, "the second result");
  server.commit({ inserted: [{ id: 2 }] });
  assert.deepEqual((await taken(query)).inserted, [{ id: 2 }]);
});

test("a delta between the welcome and the result is neither lost nor doubled", async () => {
  server.welcomes = false;
  const query = follow();
  const first = query.next();
  await until(() => server.peer !== undefined, "the socket");
  server.peer.send({ type: "subscribed", query_id: "q" });
  server.commit({ inserted: [{ id: 2 }] });
  assert.deepEqual(ids((await first).value), [1, 2]);
  server.commit({ inserted: [{ id: 3 }] });
  assert.deepEqual((await taken(query)).inserted, [{ id: 3 }]);
  assert.equal(server.results, 1);
});

for (const [status, step] of [[401, /pass a token/], [403, /ask the operator/], [404, /see that it exists/]]) {
  test(`decision 30: ${status} ends it with the gateway's sentence and the next step`, async () => {
    server.refuse = status;
    await assert.rejects(follow().next(), (error) => error.status === status && error.code === "refused_here" && step.test(error.message) && !error.message.includes("\n"));
  });
}

test("503 is waited out", async () => {
  server.refuse = 503;
  const first = follow().next();
  await until(() => statuses.filter((each) => each.state === "waiting").length > 2, "some attempts");
  server.refuse = undefined;
  assert.deepEqual(ids((await first).value), [1]);
});

test("a token that gives itself anew is asked again once", async () => {
  const tokens = ["old", "new"];
  server.refuse = 401;
  const query = follow({
    token: () => {
      const token = tokens.shift();
      if (token === "new") server.refuse = undefined;
      return token ?? "new";
    },
  });
  assert.deepEqual(ids(await taken(query)), [1]);
  server.refuse = 401;
  server.peer.close(1012);
  await assert.rejects(query.next(), { status: 401 });
});

test("the token is in no status, no error, no log and no address", async () => {
  const logged = [];
  const kept = { log: console.log, error: console.error, warn: console.warn };
  for (const name of Object.keys(kept)) console[name] = (...words) => logged.push(words);
  try {
    const query = follow();
    await taken(query);
    server.peer.tear();
    await until(() => server.results === 2, "the second result");
    server.refuse = 401;
    server.peer.tear();
    const error = await query.next().catch((found) => found);
    const shown = JSON.stringify([statuses, logged, error.message, error.stack, String(error.cause), server.requests.map((each) => each.url)]);
    assert.equal(error.status, 401);
    assert.ok(!shown.includes(TOKEN), shown);
  } finally {
    Object.assign(console, kept);
  }
});

test("a silent gateway is asked for a sign of life; a late pong will do, none will not", async () => {
  const query = follow({ silentMs: 200 });
  await taken(query);
  const [first] = server.peers;
  await until(() => first.pings > 1, "two pings");
  assert.equal(server.peers.length, 1);
  first.answersPings = false;
  await until(() => server.peers.length === 2, "another connection");
  server.commit({ inserted: [{ id: 2 }] });
  assert.deepEqual(ids(await taken(query)), [1, 2]);
});

test("a reader that takes its time finds one net change, and is told that it is behind", async () => {
  const query = follow();
  await taken(query);
  for (let n = 0; n < 5000; n++) server.commit({ inserted: [{ id: 2, n }], deleted: n === 0 ? [] : [{ id: 2, n: n - 1 }] });
  await until(() => query.rows[1]?.n === 4999, "the last delta");
  assert.deepEqual(query.status, { state: "behind" });
  assert.deepEqual((await taken(query)).inserted, [{ id: 2, n: 4999 }]);
  assert.deepEqual(query.status, { state: "live" });
  assert.equal(statuses.filter((each) => each.state === "behind").length, 1);
});

test("an AbortSignal, close() and leaving the loop end it quietly, and nothing stays open", async () => {
  const abort = new AbortController();
  const aborted = follow({ signal: abort.signal });
  await taken(aborted);
  const waiting = aborted.next();
  abort.abort();
  assert.deepEqual(await waiting, { done: true, value: undefined });
  for await (const change of follow()) if (change.rows.length === 1) break;
  await until(() => server.peers.length === 2 && server.peers.every((peer) => peer.socket.destroyed || peer.socket.readableEnded), "both sockets closed");
  assert.deepEqual(await follow({ signal: AbortSignal.abort() }).next(), { done: true, value: undefined });
});

test("rows may be read by the page's own parser, from their exact text", async () => {
  server.commit({ inserted: [{ id: 2 }] });
  const [row] = (await taken(follow({ parseRow: (text) => text }))).rows;
  assert.equal(row, '{"id":1}');
});

test("a listener that throws ends nothing", async () => {
  const kept = console.error;
  const told = [];
  console.error = (error) => told.push(error.message);
  try {
    const query = follow({ onStatus: () => { throw new Error("of the page"); } });
    assert.deepEqual(ids(await taken(query)), [1]);
  } finally {
    console.error = kept;
  }
  assert.ok(told.includes("of the page"));
});

test("an address that is none is refused in one sentence", () => {
  for (const url of ["gateway:80", "ftp://x", "http://user:pw@x", "nonsense"]) assert.throws(() => live(url, "q"), { code: "invalid_request" });
});
