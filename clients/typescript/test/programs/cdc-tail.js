/** Prints a subscription's id and then its events, a line of JSON each: `cdc-tail.js <id or subject> <events> [ack the n-th]`. */

import { ResnapshotRequired, cdc } from "../../dist/index.js";

const [, , subject, events, ackAt = "0"] = process.argv;
const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const changes = cdc(process.env.GATEWAY_URL, subject.startsWith("{") ? JSON.parse(subject) : subject, {
  token: process.env.GATEWAY_TOKEN,
  retry: { firstMs: 100, longestMs: 1000 },
  onStatus: ({ state }) => print({ state }),
});

let seen = 0;
async function follow() {
  for await (const event of changes) {
    const { seq, op, pk, after } = event;
    print({ seq, op, pk, after });
    seen++;
    if (seen === Number(ackAt)) print({ acked: await event.ack() });
    if (seen === Number(events)) return;
  }
}

print({ id: await changes.id() });
while (seen < Number(events)) {
  try {
    await follow();
  } catch (error) {
    if (!(error instanceof ResnapshotRequired)) {
      print({ error: error.message, code: error.code });
      break;
    }
    print({ resnapshot: error.reason });
    await changes.ack(error.offset);
  }
}
