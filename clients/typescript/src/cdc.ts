/** The CDC door: row changes of a table, or invalidations of a query, each until it is acked. */

import { ResnapshotRequired, TidewireError, Unavailable } from "./errors.js";
import { Gateway, parsed, type GatewayOptions } from "./gateway.js";
import { SseReader, type SseEvent } from "./sse.js";
import { tell } from "./status.js";
import { Backoff, pause, type Deadline } from "./waiting.js";

export interface Wishes {
  ops?: Array<"insert" | "update" | "delete">;
  pk?: unknown[];
  pk_range?: { lower_bound?: unknown; upper_bound?: unknown };
  columns?: string[];
  include?: { before?: boolean; after?: boolean; changed_keys?: boolean; actor?: boolean };
  format?: "objects_json" | "plain_json";
}

/** What to subscribe to: a table of a database, or a prepared query. */
export type Subject = ({ db: string; table: string } & Wishes) | ({ query_id: string; args?: unknown[] } & Wishes);

export interface Backpressure {
  state: "healthy" | "pressure" | "throttle" | "paused" | "resnapshot_required";
  lag: number;
  remaining_until_resnapshot: number;
  paused: boolean;
}

export type CdcStatus =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "waiting"; reason: string; retryInMs: number }
  /** The gateway says how far behind the acks are. */
  | { state: "backpressure"; backpressure: Backpressure };

export interface CdcOptions extends GatewayOptions {
  onStatus?: (status: CdcStatus) => void;
  /** Where to begin with a subscription that there is; its acked offset otherwise. */
  fromOffset?: number;
  /** Silence after which a stream is given up (60,000); the gateway says every 15 s that it is there. */
  silentMs?: number;
}

export interface CdcEvent {
  seq: number;
  op: "insert" | "update" | "delete" | "invalidate";
  db: string;
  table: string;
  pk?: unknown[];
  before?: Record<string, unknown>;
  after?: Record<string, unknown>;
  query_id?: string;
  etag?: string;
  commit_ts_ms: number;
  /** This event and all before it are done with. */
  ack: () => Promise<number>;
}

const RPC = "/api/v1/rpc";

/** Iterate over it, again and again if you like: it goes on where it stands. Leaving the loop keeps the subscription. */
export class CdcSubscription implements AsyncIterable<CdcEvent> {
  readonly #gateway: Gateway;
  readonly #options: CdcOptions;
  readonly #patienceMs: number;
  #subject: string | Subject;
  #subscribing: Promise<string> | undefined;
  #offset: number | undefined;

  constructor(url: string | URL, subject: string | Subject, options: CdcOptions = {}) {
    this.#gateway = new Gateway(url, options);
    this.#subject = subject;
    this.#options = options;
    this.#patienceMs = options.timeoutMs ?? 30_000;
    this.#offset = options.fromOffset;
  }

  /** The offset up to which events were handed out; undefined before the first. */
  get offset(): number | undefined {
    return this.#offset;
  }

  /** Its id, by which any process goes on with it; subscribes if that was not done yet. */
  id(): Promise<string> {
    if (this.#subscribing === undefined) {
      this.#subscribing = this.#subscribe();
      // A failed attempt is no answer for the next one.
      this.#subscribing.catch(() => (this.#subscribing = undefined));
    }
    return this.#subscribing;
  }

  /** Ends quietly by the signal; ResnapshotRequired or TidewireError where the subscription cannot go on. */
  async *[Symbol.asyncIterator](): AsyncGenerator<CdcEvent, void, undefined> {
    const leaving = new AbortController();
    const signal = this.#options.signal ?? leaving.signal;
    const backoff = new Backoff(this.#gateway.retry);
    try {
      while (!signal.aborted) {
        let trouble = new Unavailable("the stream ended");
        try {
          for await (const event of this.#stream(signal)) {
            backoff.reset();
            const found = this.#taken(event);
            if (found !== undefined) yield found;
          }
        } catch (error) {
          if (signal.aborted) return;
          if (!(error instanceof Unavailable)) throw error;
          trouble = error;
        }
        const retryInMs = Math.round(backoff.next(trouble.retryAfterMs));
        this.#tell({ state: "waiting", reason: trouble.message, retryInMs });
        await pause(retryInMs, signal);
      }
    } finally {
      leaving.abort();
    }
  }

  /** Everything up to this offset, or this event, is done with; the offset that is acked now. */
  async ack(upto: number | { seq: number }): Promise<number> {
    const offset = typeof upto === "number" ? upto : upto.seq;
    const answer = (await this.call("cdc.ack", { sub_id: await this.id(), offset })) as { acked_offset: number };
    this.#offset = Math.max(this.#offset ?? 0, answer.acked_offset);
    return answer.acked_offset;
  }

  async pause(): Promise<void> {
    await this.call("cdc.pause", { sub_id: await this.id() });
  }

  async resume(): Promise<void> {
    await this.call("cdc.resume", { sub_id: await this.id() });
  }

  /** For ever: the gateway forgets it. */
  async drop(): Promise<void> {
    await this.call("cdc.close", { sub_id: await this.id() });
  }

  /** Any method of the door; waits while the gateway says that it is not ready. */
  async call(method: string, params: object): Promise<unknown> {
    const body = { skeinql: "1.0", id: 1, method, params };
    const answer = (await this.#gateway.patiently(RPC, { method: "POST", body, signal: this.#options.signal }, this.#patienceMs)) as {
      ok?: boolean;
      result?: unknown;
      error?: { code: string; message: string };
    };
    if (answer.ok === true) return answer.result;
    throw failure(answer.error);
  }

  async #subscribe(): Promise<string> {
    if (typeof this.#subject === "string") return this.#subject;
    const method = "table" in this.#subject ? "cdc.subscribe_table" : "cdc.subscribe_query";
    const made = (await this.call(method, this.#subject)) as { sub_id: string; offset: number };
    this.#offset ??= made.offset;
    return made.sub_id;
  }

  /** The events of one connection; a reader that does not ask for the next one lets the connection fill, not memory. */
  async *#stream(signal: AbortSignal): AsyncGenerator<SseEvent, void, undefined> {
    this.#tell({ state: "connecting" });
    const path = `/api/v1/cdc/sse/${encodeURIComponent(await this.id())}`;
    const headers = { Accept: "text/event-stream", ...(this.#offset === undefined ? {} : { "Last-Event-ID": String(this.#offset) }) };
    const { response, deadline } = await this.#gateway.ask(path, { headers, signal });
    const reader = response.body?.getReader();
    if (reader === undefined) return;
    this.#tell({ state: "live" });
    try {
      yield* this.#read(reader, deadline, signal);
    } finally {
      deadline.abort();
      reader.cancel().catch(() => undefined);
    }
  }

  async *#read(reader: ReadableStreamDefaultReader<Uint8Array>, deadline: Deadline, signal: AbortSignal): AsyncGenerator<SseEvent, void, undefined> {
    const [sse, decoder, silentMs] = [new SseReader(), new TextDecoder(), this.#options.silentMs ?? 60_000];
    for (;;) {
      deadline.renew(silentMs);
      let piece: { done: boolean; value?: Uint8Array | undefined };
      try {
        piece = await reader.read();
      } catch (error) {
        signal.throwIfAborted();
        throw new Unavailable(deadline.passed ? "the stream fell silent" : "the stream broke off", { cause: error });
      }
      deadline.lift();
      if (piece.done) return;
      yield* sse.feed(decoder.decode(piece.value, { stream: true }));
    }
  }

  #taken(event: SseEvent): CdcEvent | undefined {
    const data = parsed(event.data) as Record<string, unknown>;
    switch (event.name) {
      case "backpressure":
        this.#tell({ state: "backpressure", backpressure: data as unknown as Backpressure });
        return undefined;
      case "resnapshot":
        throw new ResnapshotRequired(Number(data.resnapshot_from_offset), String(data.resnapshot_reason));
      case "error":
        throw failure(data as unknown as { code: string; message: string });
    }
    const seq = Number(data.seq);
    // After a connection was lost the gateway may tell again what it had told.
    if (seq <= (this.#offset ?? -1)) return undefined;
    this.#offset = seq;
    return { ...(data as unknown as Omit<CdcEvent, "ack">), ack: () => this.ack(seq) };
  }

  #tell(status: CdcStatus): void {
    tell(this.#options.onStatus, status);
  }
}

const NEXT_STEP: Record<string, string> = {
  not_found: "subscribe again",
  forbidden: "ask for SELECT on the whole table",
  unauthorized: "pass a token that this gateway accepts",
};

function failure(error: { code: string; message: string } | undefined): TidewireError {
  const [code, message] = [error?.code ?? "protocol", error?.message ?? "the answer is no envelope"];
  const step = NEXT_STEP[code];
  return new TidewireError(code, step === undefined ? message : `${message}: ${step}`);
}

/** A subscription of the CDC door: one that there is by its id, or a new one. */
export function cdc(url: string | URL, subject: string | Subject, options: CdcOptions = {}): CdcSubscription {
  return new CdcSubscription(url, subject, options);
}
