/** Runs the README's examples against a server that plays the gateway, and prints what they printed. */

import { spawn } from "node:child_process";

import { ScriptedServer, bodyOf, until } from "../scripted-server.js";

const server = await ScriptedServer.start("active_orders");
server.commit({ inserted: [{ id: 1 }, { id: 2 }] });
server.other = async (request, response) => {
  if (request.method === "GET") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    return response.write('id: 1\nevent: insert\ndata: {"seq":1,"op":"insert","table":"orders","pk":[7]}\n\n');
  }
  const body = await bodyOf(request);
  const payload = Buffer.from('{"id":9}').toString("base64");
  const messages = [{ topic_id: "app.new_orders", partition_id: 0, offset: 0, op: "Insert", payload }];
  if (request.url === "/api/topics/consume") return response.end(JSON.stringify({ messages, next_offset: 1, has_more: false, claim_id: "c" }));
  response.end(JSON.stringify({ ok: true, success: true, result: { sub_id: "sub_1", offset: 0, acked_offset: 1 } }));
};

/** One example, until it has printed so many lines. */
async function run(number, count, whenFirst = () => undefined) {
  const child = spawn(process.execPath, [`example-${number}.mjs`], { env: { ...process.env, GATEWAY_URL: server.url, GATEWAY_TOKEN: "token" }, stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.on("data", (data) => {
    if (printed === "") whenFirst();
    printed += data;
  });
  await until(() => printed.split("\n").length > count || child.exitCode !== null, `example ${number}: ${count} lines`, 60_000);
  child.kill();
  console.log(`example ${number}: ${printed.trim().split("\n").join(" | ")}`);
}

await run(0, 2, () => server.commit({ inserted: [{ id: 3 }] }));
await run(1, 1);
await run(2, 1);
await server.stop();
process.exit(0);
