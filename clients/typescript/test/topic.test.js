import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { topic } from "../dist/index.js";
import { ScriptedServer, TOKEN, bodyOf, until } from "./scripted-server.js";

const FAST = { firstMs: 10, longestMs: 50 };
let server, asked, acked, answers, abort;

beforeEach(async () => {
  [server, asked, acked, answers, abort] = [await ScriptedServer.start(), [], [], [], new AbortController()];
  server.other = async (request, response) => {
    const body = await bodyOf(request);
    if (request.url !== "/api/topics/consume") {
      acked.push([request.url, body]);
      return response.end(JSON.stringify({ success: true, acknowledged_offset: body.upto_offset }));
    }
    asked.push(body);
    const answer = answers.shift();
    // Nothing to say: the request is held.
    if (answer === undefined) return;
    if (typeof answer === "number") return response.writeHead(answer).end('{"error":"Topic \'t\' does not exist","code":"NOT_FOUND"}');
    response.end(JSON.stringify(answer));
  };
});

afterEach(async () => {
  abort.abort();
  await server.stop();
});

const message = (offset, value = { id: offset }) => ({
  topic_id: "app.t", partition_id: 0, offset, message_id: String(offset), source_table: "app.orders", op: "Insert", ts: 1, payload_mode: "Key", user: "postgres",
  payload: Buffer.from(JSON.stringify(value)).toString("base64"),
});
const consumer = (options = {}) => topic(server.url, "app.t", { group: "g", token: TOKEN, retry: FAST, signal: abort.signal }).consume(options);

test("K15: messages come with their payload read, and are acked with their claim (decision 12)", async () => {
  answers.push({ messages: [message(0, { id: "Grüße" }), message(1)], next_offset: 2, has_more: false, claim_id: "c1" });
  const found = [];
  for await (const each of consumer({ start: "Earliest" })) {
    found.push([each.offset, each.value, each.op]);
    await each.ack();
    if (found.length === 2) break;
  }
  assert.deepEqual(found, [[0, { id: "Grüße" }, "Insert"], [1, { id: 1 }, "Insert"]]);
  assert.deepEqual(asked, [{ topic: "app.t", group_id: "g", start: "Earliest", limit: 100, partition_id: 0, timeout_seconds: 30 }]);
  assert.deepEqual(acked.at(-1), ["/api/topics/ack", { topic: "app.t", group_id: "g", partition_id: 0, upto_offset: 1, claim_id: "c1" }]);
});

test("K16: an empty long poll is asked again behind it (decision 25)", async () => {
  answers.push({ messages: [], next_offset: 5, has_more: false }, { messages: [message(5)], next_offset: 6, has_more: false });
  assert.equal((await consumer().next()).value.offset, 5);
  assert.deepEqual(asked.map((each) => each.start), ["Latest", { Offset: 5 }]);
});

test("the next answer is asked for when the last one was taken", async () => {
  answers.push({ messages: [message(0), message(1)], next_offset: 2, has_more: true });
  const messages = consumer();
  await messages.next();
  await messages.next();
  assert.equal(asked.length, 1);
  messages.next().catch(() => undefined);
  await until(() => asked.length === 2, "the second request");
});

test("without a group the reader keeps its own place, and cannot ack", async () => {
  answers.push({ messages: [message(0)], next_offset: 1, has_more: false });
  const plain = topic(server.url, "app.t", { token: TOKEN, signal: abort.signal });
  const messages = plain.consume({ start: "Earliest" });
  await assert.rejects((await messages.next()).value.ack(), { code: "invalid_request" });
  messages.next().catch(() => undefined);
  await until(() => asked.length === 2, "the second request");
  assert.deepEqual([asked[1].start, asked[1].group_id], [{ Offset: 1 }, undefined]);
});

test("K20: an unknown topic ends it with the gateway's sentence", async () => {
  answers.push(404);
  await assert.rejects(consumer().next(), { status: 404, code: "NOT_FOUND", message: "Topic 't' does not exist: see that it exists and that you may use it" });
});

test("503 is waited out, and a trimmed offset is told (decision 11)", async () => {
  const statuses = [];
  answers.push(503, { messages: [message(9)], next_offset: 10, has_more: false, trimmed: true });
  assert.equal((await consumer({ onStatus: (status) => statuses.push(status) }).next()).value.offset, 9);
  assert.deepEqual(statuses.map((each) => each.state), ["consuming", "waiting", "consuming", "trimmed"]);
  assert.equal(statuses[3].offset, 9);
});

test("a message can be refused with a reason", async () => {
  answers.push({ messages: [message(3)], next_offset: 4, has_more: false });
  await (await consumer().next()).value.nack("no such customer");
  assert.deepEqual(acked, [["/api/topics/nack", { topic: "app.t", group_id: "g", partition_id: 0, offset: 3, reason: "no such customer" }]]);
});

test("a signal ends a held request quietly", async () => {
  const next = consumer().next();
  await until(() => asked.length === 1, "the request");
  abort.abort();
  assert.deepEqual(await next, { done: true, value: undefined });
});
