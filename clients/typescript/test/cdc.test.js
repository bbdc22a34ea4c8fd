import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { ResnapshotRequired, cdc } from "../dist/index.js";
import { ScriptedServer, TOKEN, bodyOf, until } from "./scripted-server.js";

const FAST = { firstMs: 10, longestMs: 50 };
let server, streams, calls, statuses, abort;
/** What the door answers to a call. */
let answers;

beforeEach(async () => {
  [server, streams, calls, statuses, abort] = [await ScriptedServer.start(), [], [], [], new AbortController()];
  answers = { "cdc.subscribe_table": { sub_id: "sub_1", offset: 10 }, "cdc.ack": { acked_offset: 12 }, "cdc.close": {} };
  server.other = async (request, response) => {
    if (request.method === "POST") {
      const call = await bodyOf(request);
      calls.push(call);
      const result = answers[call.method];
      const error = { code: "not_found", message: "no such subscription", details: {} };
      return response.end(JSON.stringify(result ? { id: call.id, ok: true, result } : { id: call.id, ok: false, error }));
    }
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("retry: 1000\n\n");
    streams.push({ request, response });
  };
});

afterEach(async () => {
  abort.abort();
  await server.stop();
});

const door = (subject = { db: "app", table: "orders" }, options = {}) =>
  cdc(server.url, subject, { token: TOKEN, retry: FAST, signal: abort.signal, onStatus: (status) => statuses.push(status), ...options });
const event = (seq, op = "insert") => `id: ${seq}\nevent: ${op}\ndata: ${JSON.stringify({ seq, op, db: "app", table: "orders", pk: [seq] })}\n\n`;
const control = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** The next event of an iteration, once the stream that it waits for has told it. */
async function told(iteration, at, text) {
  const next = iteration.next();
  await until(() => streams.length > at, "the stream");
  streams[at].response.write(text);
  return (await next).value;
}

test("S34: a lost stream goes on behind the last event, and nothing is told twice", async () => {
  const iteration = door()[Symbol.asyncIterator]();
  const first = await told(iteration, 0, event(11) + event(12));
  assert.deepEqual([first.seq, first.op, first.table, first.pk], [11, "insert", "orders", [11]]);
  assert.equal((await iteration.next()).value.seq, 12);
  // Cut inside of an event.
  streams[0].response.write(event(13).slice(0, -9));
  const next = iteration.next();
  setImmediate(() => streams[0].response.destroy());
  await until(() => streams.length === 2, "the second stream");
  streams[1].response.write(event(12) + event(13));
  assert.equal((await next).value.seq, 13);
  assert.deepEqual(streams.map(({ request }) => request.headers["last-event-id"]), ["10", "12"]);
  assert.equal(calls.length, 1, "it subscribed once");
});

test("an id that there is begins at its acked offset, or where it is told to", async () => {
  const iteration = door("sub_9")[Symbol.asyncIterator]();
  await told(iteration, 0, event(3));
  await told(door("sub_9", { fromOffset: 2 })[Symbol.asyncIterator](), 1, event(3));
  assert.deepEqual(streams.map(({ request }) => [request.url, request.headers["last-event-id"]]), [["/api/v1/cdc/sse/sub_9", undefined], ["/api/v1/cdc/sse/sub_9", "2"]]);
});

test("S22: an event is acked with its offset", async () => {
  const subscription = door();
  const found = await told(subscription[Symbol.asyncIterator](), 0, event(11));
  assert.equal(await found.ack(), 12);
  assert.deepEqual(calls.at(-1).params, { sub_id: "sub_1", offset: 11 });
  assert.equal(subscription.offset, 12);
});

test("S37: a resnapshot is thrown with where to go on, and the same subscription iterates again", async () => {
  const subscription = door();
  const data = { resnapshot_from_offset: 40, resnapshot_reason: "truncated" };
  const failed = await told(subscription[Symbol.asyncIterator](), 0, control("resnapshot", data)).catch((error) => error);
  assert.ok(failed instanceof ResnapshotRequired);
  assert.deepEqual([failed.offset, failed.reason], [40, "truncated"]);
  answers["cdc.ack"] = { acked_offset: 40 };
  await subscription.ack(failed.offset);
  await told(subscription[Symbol.asyncIterator](), 1, event(41));
  assert.equal(streams[1].request.headers["last-event-id"], "40");
});

test("S36: backpressure is told by the status", async () => {
  await told(door()[Symbol.asyncIterator](), 0, control("backpressure", { state: "pressure", lag: 2048 }) + event(11));
  assert.deepEqual(statuses.at(-1), { state: "backpressure", backpressure: { state: "pressure", lag: 2048 } });
});

test("a right that was lost while streaming ends it with the next step", async () => {
  const iteration = door()[Symbol.asyncIterator]();
  const data = { code: "forbidden", message: "no SELECT on orders", details: {} };
  await assert.rejects(told(iteration, 0, control("error", data)), { code: "forbidden", message: "no SELECT on orders: ask for SELECT on the whole table" });
});

test("a call that is refused says why", async () => {
  await assert.rejects(door("sub_1").pause(), { code: "not_found", message: "no such subscription: subscribe again" });
});

test("a stream that falls silent is opened again", async () => {
  const next = door(undefined, { silentMs: 100 })[Symbol.asyncIterator]().next();
  await until(() => streams.length === 2, "the second stream");
  streams[1].response.write(event(11));
  assert.equal((await next).value.seq, 11);
  assert.ok(statuses.some((each) => each.reason === "the stream fell silent"));
});

test("a gateway that restarts is waited for, also by a call", async () => {
  const kept = server.other;
  let refused = 0;
  server.other = (request, response) => (++refused < 3 ? response.writeHead(503, { "Retry-After": "0" }).end("{}") : kept(request, response));
  await told(door()[Symbol.asyncIterator](), 0, event(11));
  assert.equal(refused, 4);
});

test("a token that gives itself anew is asked again after a 401, once", async () => {
  const kept = server.other;
  const seen = [];
  server.other = (request, response) => {
    seen.push(request.headers.authorization);
    return request.headers.authorization === "Bearer fresh" ? kept(request, response) : response.writeHead(401).end("{}");
  };
  const tokens = ["stale", "fresh", "stale", "stale"];
  const subscription = door("sub_1", { token: () => tokens.shift() });
  answers["cdc.pause"] = {};
  await subscription.pause();
  await assert.rejects(subscription.pause(), { status: 401, code: "unauthorized" });
  assert.deepEqual(seen, ["Bearer stale", "Bearer fresh", "Bearer stale", "Bearer stale"]);
});

test("a reader that stops reading holds the gateway up, and fills no memory", async () => {
  const subscription = door();
  const iteration = subscription[Symbol.asyncIterator]();
  await told(iteration, 0, event(11));
  const { response } = streams[0];
  const many = Array.from({ length: 1000 }, (_, n) => `id: ${n + 12}\nevent: insert\ndata: {"seq":${n + 12},"op":"insert","after":"${"x".repeat(1000)}"}\n\n`).join("");
  for (let n = 0; n < 60; n++) response.write(many);
  // What the server could not send stays with it: the kernel's buffers and the reader's own are all that moved.
  let [last, looks] = [-1, 0];
  await until(() => ((looks = response.writableLength === last ? looks + 1 : 0), (last = response.writableLength), looks === 60), "nothing moves");
  assert.ok(last > 30_000_000, `${last} bytes are left`);
  await iteration.return();
  await until(() => response.destroyed, "leaving the loop closes the connection");
});

test("leaving the loop and the signal end the stream quietly", async () => {
  const iteration = door()[Symbol.asyncIterator]();
  const next = iteration.next();
  await until(() => streams.length === 1, "the stream");
  abort.abort();
  assert.deepEqual(await next, { done: true, value: undefined });
  await until(() => streams[0].response.destroyed, "it is closed");
});
