/** A gateway that does what a test says: the WebSocket and the result of one query, SSE, RPC and topics. */

import { createHash } from "node:crypto";
import { createServer } from "node:http";

export const TOKEN = "a-secret-token-that-no-log-may-show";

function frame(opcode, body) {
  const length = body.length < 126 ? Buffer.from([body.length]) : Buffer.from([126, body.length >> 8, body.length & 255]);
  return Buffer.concat([Buffer.from([0x80 | opcode]), length, body]);
}

/** The server's end of one WebSocket. */
class Peer {
  constructor(socket, request) {
    this.socket = socket;
    this.request = request;
    this.pings = 0;
    this.answersPings = true;
    socket.on("data", (data) => {
      if ((data[0] & 15) === 8) socket.end(frame(8, Buffer.alloc(0)));
      if ((data[0] & 15) === 9) {
        this.pings++;
        if (this.answersPings) socket.write(frame(10, Buffer.alloc(0)));
      }
    });
    socket.on("error", () => undefined);
  }
  send(message) {
    this.socket.write(frame(1, Buffer.from(typeof message === "string" ? message : JSON.stringify(message))));
  }
  close(code) {
    this.socket.end(frame(8, Buffer.from([code >> 8, code & 255])));
  }
  tear() {
    this.socket.destroy();
  }
}

/** One query: its rows, seq and gen as the server has them, and what the clients are told. */
export class ScriptedServer {
  constructor(queryId = "q") {
    this.queryId = queryId;
    this.rows = new Map();
    [this.seq, this.gen] = [0, 1];
    this.peers = [];
    this.results = 0;
    this.requests = [];
    /** What to answer instead: a status, for sockets and results. */
    this.refuse = undefined;
    this.welcomes = true;
    /** Called with each other request; answers it. */
    this.other = (request, response) => response.writeHead(404).end();
    this.server = createServer((request, response) => this.#answer(request, response));
    this.server.on("upgrade", (request, socket) => this.#upgrade(request, socket));
  }

  static async start(queryId) {
    const made = new ScriptedServer(queryId);
    await new Promise((resolve) => made.server.listen(0, "127.0.0.1", resolve));
    return made;
  }

  get url() {
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  async stop() {
    for (const peer of this.peers) peer.tear();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** Rows enter and leave, and the clients are told in this way: "delta", "overflow", "silent" or "lost". */
  commit({ inserted = [], deleted = [] }, told = "delta") {
    this.seq++;
    for (const row of deleted) this.rows.delete(JSON.stringify(row));
    for (const row of inserted) this.rows.set(JSON.stringify(row), row);
    const head = { query_id: this.queryId, seq: this.seq, gen: this.gen };
    if (told === "delta") this.broadcast({ ...head, inserted, deleted });
    if (told === "overflow") this.broadcast({ type: "overflow", ...head, fetch: true });
    if (told === "invalidated") this.broadcast({ type: "invalidated", ...head });
  }

  broadcast(message) {
    for (const peer of this.peers) if (!peer.socket.destroyed) peer.send(message);
  }

  /** Another query under the same id: sockets of the old gen are closed. */
  register(rows) {
    this.gen++;
    this.rows = new Map(rows.map((row) => [JSON.stringify(row), row]));
    for (const peer of this.peers) peer.close(4001);
  }

  get peer() {
    return this.peers.at(-1);
  }

  #upgrade(request, socket) {
    this.requests.push(request);
    const refuse = this.refuse ?? (request.url.split("?")[0] === `/ws/${this.queryId}` ? undefined : 404);
    if (refuse !== undefined) {
      const body = JSON.stringify({ error: { code: "refused_here", message: "the gateway says no", details: {} } });
      socket.end(`HTTP/1.1 ${refuse} No\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
      return;
    }
    const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    const peer = new Peer(socket, request);
    this.peers.push(peer);
    if (this.welcomes) peer.send({ type: "subscribed", query_id: this.queryId });
  }

  #answer(request, response) {
    this.requests.push(request);
    if (request.url.split("?")[0] !== `/api/v1/q/${this.queryId}/result`) return this.other(request, response);
    this.results++;
    // A page of another origin may ask, as _CORS_ORIGINS of a gateway lets it.
    response.setHeader("Access-Control-Allow-Origin", "*");
    response.setHeader("Access-Control-Allow-Headers", "*");
    if (request.method === "OPTIONS") return response.writeHead(204).end();
    if (this.refuse !== undefined) return response.writeHead(this.refuse).end('{"error":{"code":"refused_here","message":"the gateway says no","details":{}}}');
    response.end(JSON.stringify({ query_id: this.queryId, seq: this.seq, gen: this.gen, rows: [...this.rows.values()] }));
  }
}

/** The whole body of a request, as JSON. */
export async function bodyOf(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return JSON.parse(text);
}

/** Looks again and again until it is so. */
export async function until(condition, what, withinMs = 15_000) {
  const deadline = Date.now() + withinMs;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
