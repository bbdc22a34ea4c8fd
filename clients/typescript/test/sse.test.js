import assert from "node:assert/strict";
import { test } from "node:test";

import { SseReader } from "../dist/sse.js";

const STREAM = "\ufeffretry: 1000\n\n: keep-alive\n\nid: 7\nevent: insert\ndata: {\"a\":\r\ndata:1}\r\n\r\nevent: backpressure\rdata: Grüße 世界\r\rid\ndata\n\nevent: nothing\n\ndata: cut";
const EVENTS = [
  { name: "insert", data: '{"a":\n1}', id: "7" },
  { name: "backpressure", data: "Grüße 世界", id: "7" },
  { name: "message", data: "", id: "" },
];

test("S32: events do not depend on how the network cuts the stream", () => {
  for (let size = 1; size <= STREAM.length; size++) {
    const reader = new SseReader();
    const events = [];
    for (let at = 0; at < STREAM.length; at += size) events.push(...reader.feed(STREAM.slice(at, at + size)));
    assert.deepEqual(events, EVENTS, `pieces of ${size}`);
  }
});
