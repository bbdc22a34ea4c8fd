/** A WebSocket client on Node's own sockets, since Node 20 has none: text frames, pings, close codes, bounded. */

import { createHash, randomBytes } from "node:crypto";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";

import { Unavailable } from "./errors.js";
import { refused, told } from "./gateway.js";
import type { Socket, SocketHandlers, SocketRequest } from "./websocket.js";

const MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const LONGEST_MESSAGE = 16 * 1024 * 1024;
const LONGEST_REFUSAL = 64 * 1024;
const [CONTINUED, TEXT, CLOSE, PING, PONG] = [0, 1, 8, 9, 10];

export function openNodeSocket(request: SocketRequest): Promise<Socket> {
  const key = randomBytes(16).toString("base64");
  const ask = request.url.startsWith("https:") ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const asking = ask(request.url, {
      headers: {
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        ...(request.token === "" ? {} : { Authorization: `Bearer ${request.token}` }),
      },
    });
    const giveUp = (): void => void asking.destroy(new Error("given up"));
    const timer = setTimeout(giveUp, request.openWithinMs);
    const settle = (): void => {
      clearTimeout(timer);
      request.signal.removeEventListener("abort", giveUp);
    };
    request.signal.addEventListener("abort", giveUp);
    if (request.signal.aborted) giveUp();
    asking.on("error", (error: NodeJS.ErrnoException) => {
      settle();
      reject(new Unavailable(`no connection to the gateway${error.code ? ` (${error.code})` : ""}`, { cause: error }));
    });
    asking.on("response", (answer) => {
      settle();
      void refusal(answer).then(reject, reject);
    });
    asking.on("upgrade", (answer, stream, head) => {
      settle();
      const wanted = createHash("sha1").update(key + MAGIC).digest("base64");
      if (answer.headers["sec-websocket-accept"] !== wanted) {
        stream.destroy();
        return reject(new Unavailable("the server does not speak WebSocket"));
      }
      resolve(new NodeSocket(stream, head, request));
    });
    asking.end();
  });
}

/** Why the gateway did not upgrade. */
async function refusal(answer: IncomingMessage): Promise<Error> {
  let body = "";
  answer.setEncoding("utf8");
  for await (const piece of answer) {
    body += String(piece);
    if (body.length > LONGEST_REFUSAL) break;
  }
  const status = answer.statusCode ?? 0;
  const { code, message } = told(body, status);
  if (status === 401 || status === 403 || status === 404) return refused(status, code, message);
  const seconds = Number(answer.headers["retry-after"]);
  return new Unavailable(`HTTP ${status}: ${message}`, { retryAfterMs: seconds > 0 ? Math.min(seconds, 300) * 1000 : 0 });
}

class NodeSocket implements Socket {
  readonly #stream: Duplex;
  readonly #handlers: SocketHandlers;
  readonly #signal: AbortSignal;
  readonly #silentMs: number;
  readonly #leave = (): void => this.close();
  #buffer: Buffer = Buffer.alloc(0);
  #message: Buffer[] = [];
  #messageBytes = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(stream: Duplex, head: Buffer, request: SocketRequest) {
    this.#stream = stream;
    this.#handlers = request.handlers;
    this.#signal = request.signal;
    this.#silentMs = request.silentMs;
    this.#signal.addEventListener("abort", this.#leave);
    stream.on("data", (data: Buffer) => this.#received(data));
    stream.on("error", () => this.#ended(1006, "torn"));
    stream.on("close", () => this.#ended(1006, "torn"));
    stream.on("end", () => this.#ended(1006, "torn"));
    this.#listen();
    // After the caller has its socket.
    if (head.length > 0) queueMicrotask(() => this.#received(head));
    if (this.#signal.aborted) this.close();
  }

  close(code = 1000): void {
    if (this.#closed) return;
    const body = Buffer.alloc(2);
    body.writeUInt16BE(code);
    this.#send(CLOSE, body);
    this.#ended(code, "closed here");
  }

  #ended(code: number, reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#signal.removeEventListener("abort", this.#leave);
    this.#stream.end();
    // What the other side still has to say is not waited for.
    setTimeout(() => this.#stream.destroy(), 1000).unref();
    this.#handlers.closed(code, reason);
  }

  /** Silence is answered by a ping; if nothing at all comes then, the other side is gone. */
  #listen(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#send(PING, Buffer.alloc(0));
      this.#timer = setTimeout(() => {
        this.#stream.destroy();
        this.#ended(1006, "no sign of life");
      }, this.#silentMs);
    }, this.#silentMs);
  }

  #received(data: Buffer): void {
    if (this.#closed) return;
    this.#listen();
    this.#buffer = this.#buffer.length === 0 ? data : Buffer.concat([this.#buffer, data]);
    for (;;) {
      const frame = this.#frame();
      if (frame === undefined || this.#closed) return;
      this.#taken(frame.opcode, frame.last, frame.body);
    }
  }

  /** The next whole frame. */
  #frame(): { opcode: number; last: boolean; body: Buffer } | undefined {
    const buffer = this.#buffer;
    if (buffer.length < 2) return undefined;
    const [first, second] = [buffer.readUInt8(0), buffer.readUInt8(1)];
    // Reserved bits were not agreed on, and a server does not mask.
    if ((first & 0x70) !== 0 || (second & 0x80) !== 0) return this.#broken();
    const short = second & 0x7f;
    const start = short === 126 ? 4 : short === 127 ? 10 : 2;
    if (buffer.length < start) return undefined;
    const length = short === 126 ? buffer.readUInt16BE(2) : short === 127 ? Number(buffer.readBigUInt64BE(2)) : short;
    if (length + this.#messageBytes > LONGEST_MESSAGE) return this.#broken();
    if (buffer.length < start + length) return undefined;
    this.#buffer = buffer.subarray(start + length);
    return { opcode: first & 0x0f, last: (first & 0x80) !== 0, body: buffer.subarray(start, start + length) };
  }

  #taken(opcode: number, last: boolean, body: Buffer): void {
    if (opcode === PING) this.#send(PONG, body);
    else if (opcode === CLOSE) {
      const code = body.length >= 2 ? body.readUInt16BE(0) : 1005;
      this.#send(CLOSE, body.subarray(0, 2));
      this.#ended(code, body.subarray(2).toString());
    } else if (opcode === CONTINUED || opcode === TEXT) this.#gather(last, body);
    else if (opcode !== PONG) this.#broken();
  }

  #gather(last: boolean, body: Buffer): void {
    this.#message.push(body);
    this.#messageBytes += body.length;
    if (!last) return;
    const whole = Buffer.concat(this.#message);
    this.#message = [];
    this.#messageBytes = 0;
    this.#handlers.message(whole.toString("utf8"));
  }

  #broken(): undefined {
    this.#stream.destroy();
    this.#ended(1002, "broken frames");
    return undefined;
  }

  #send(opcode: number, body: Buffer): void {
    if (this.#closed || !this.#stream.writable) return;
    const mask = randomBytes(4);
    const masked = Buffer.from(body.map((byte, at) => byte ^ mask.readUInt8(at % 4)));
    this.#stream.write(Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | body.length]), mask, masked]));
  }
}
