/** Serves the React page beside a scripted gateway; obeys lines of JSON: [method, ...arguments], and answers each with a line. */

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

import { ScriptedServer } from "../scripted-server.js";

const server = await ScriptedServer.start(process.argv[3] ?? "q");
const script = await readFile(process.argv[2]);
server.other = (request, response) => {
  if (request.url === "/app.js") return response.writeHead(200, { "Content-Type": "text/javascript" }).end(script);
  if (request.url === "/") return response.writeHead(200, { "Content-Type": "text/html" }).end('<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><div id="root"></div><script src="/app.js"></script>');
  response.writeHead(404).end('{"error":{"code":"not_found","message":"no such query","details":{}}}');
};

const commands = {
  commit: (change, told) => server.commit(change, told),
  register: (rows) => server.register(rows),
  close: (code) => server.peers.filter((peer) => !peer.socket.destroyed).forEach((peer) => peer.close(code)),
  tear: () => server.peers.forEach((peer) => peer.tear()),
  refuse: (status) => void (server.refuse = status ?? undefined),
  state: () => ({ open: server.peers.filter((peer) => !peer.socket.destroyed && !peer.socket.readableEnded).length, address: server.peer?.request.url, credentials: server.peer?.request.headers.authorization }),
};

process.stdout.write(`${JSON.stringify(server.url)}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...values] = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(commands[name](...values) ?? null)}\n`);
}
process.exit(0);
