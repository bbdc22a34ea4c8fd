/** The NOTIFY door: a registered query as its rows and then each change of them, whatever happens to the connection. */

import { TidewireError, Unavailable } from "./errors.js";
import { Gateway, type GatewayOptions } from "./gateway.js";
import { LiveState, broken, type Gaps, type Verdict } from "./live-state.js";
import { Status, type LiveStatus } from "./live-status.js";
import { Backoff, pause } from "./waiting.js";
import { openSocket, type Socket } from "./websocket.js";

export interface LiveOptions<Row> extends GatewayOptions {
  /** Told of each change of state; what it throws is reported, and ends nothing. */
  onStatus?: (status: LiveStatus) => void;
  /** Reads one row from its exact JSON text: for numbers that JavaScript would round. */
  parseRow?: (text: string) => Row;
  gaps?: Gaps;
  /** Refetches after a gap or an overflow are spread over this time (100). */
  spreadMs?: number;
  /** In Node: silence after which the gateway is asked for a sign of life (20,000). */
  silentMs?: number;
}

/** What entered and left the result since the last change that was taken, and the rows that it has now. */
export interface Change<Row> {
  inserted: Row[];
  deleted: Row[];
  rows: readonly Row[];
  seq: number;
  gen: number;
}

// Close codes of the gateway (decision 30).
const RE_REGISTERED = 4001;
const NO_LONGER_ALLOWED = 4003;
const WELCOME_WITHIN_MS = 15_000;
/** A connection that held for so long was a good one. */
const GOOD_AFTER_MS = 5_000;

interface Ending {
  code: number;
  reason: string;
}

/** Iterate over it; the first change is the result itself. Leaving the loop, close() or the signal ends it. */
export class LiveQuery<Row> implements AsyncIterableIterator<Change<Row>> {
  readonly #gateway: Gateway;
  readonly #queryId: string;
  readonly #options: LiveOptions<Row>;
  readonly #state: LiveState<Row>;
  readonly #status: Status;
  readonly #end = new AbortController();
  readonly #backoff: Backoff;
  #running: Promise<void> | undefined;
  #ready = false;
  #merged = 0;
  #failure: unknown;
  #waiters: Array<() => void> = [];

  constructor(url: string | URL, queryId: string, options: LiveOptions<Row> = {}) {
    this.#gateway = new Gateway(url, options);
    this.#queryId = queryId;
    this.#options = options;
    this.#state = new LiveState(queryId, options.parseRow ?? ((text) => JSON.parse(text) as Row), options.gaps);
    this.#status = new Status(options.onStatus);
    this.#backoff = new Backoff(options.retry);
    if (options.signal?.aborted) this.close();
    options.signal?.addEventListener("abort", this.#close);
  }

  readonly #close = (): void => this.close();

  /** The rows of now, also those of changes that were not taken yet. */
  get rows(): readonly Row[] {
    return this.#state.set.rows;
  }

  get status(): LiveStatus {
    return this.#status.now;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Change<Row>>> {
    this.#running ??= this.#run();
    while (!this.#ready && !this.#end.signal.aborted) await new Promise<void>((resolve) => this.#waiters.push(resolve));
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#end.signal.aborted) return { done: true, value: undefined };
    this.#ready = false;
    if (this.#merged > 1) this.#status.caughtUp();
    this.#merged = 0;
    return { done: false, value: { ...this.#state.set.take(), seq: this.#state.seq, gen: this.#state.gen } };
  }

  async return(): Promise<IteratorResult<Change<Row>>> {
    this.close();
    await this.#running;
    return { done: true, value: undefined };
  }

  close(): void {
    if (this.#end.signal.aborted) return;
    this.#end.abort();
    this.#options.signal?.removeEventListener("abort", this.#close);
    this.#status.tell({ state: "ended" });
    this.#wake();
  }

  async #run(): Promise<void> {
    let renewed = false;
    while (!this.#end.signal.aborted) {
      this.#status.tell({ state: "connecting" });
      const began = Date.now();
      try {
        const ending = await this.#session();
        renewed = false;
        if (ending.code === NO_LONGER_ALLOWED) throw noLongerAllowed(this.#queryId);
        if (Date.now() - began > GOOD_AFTER_MS) this.#backoff.reset();
        // All of a query's clients come at once: the first wait spreads them.
        if (ending.code === RE_REGISTERED) this.#backoff.reset();
        await this.#wait(`the connection ended (${ending.code}${ending.reason === "" ? "" : `: ${ending.reason}`})`, 0);
      } catch (error) {
        if (this.#end.signal.aborted) return;
        if (error instanceof Unavailable) await this.#wait(error.message, error.retryAfterMs);
        else if (error instanceof TidewireError && error.code === "protocol") await this.#wait(error.message, 0);
        else if (isUnauthorized(error) && this.#gateway.renewsToken && !renewed) renewed = true;
        else return this.#fail(error);
      }
    }
  }

  #wait(reason: string, leastMs: number): Promise<void> {
    if (this.#end.signal.aborted) return Promise.resolve();
    const retryInMs = Math.round(this.#backoff.next(leastMs));
    this.#status.tell({ state: "waiting", reason, retryInMs });
    return pause(retryInMs, this.#end.signal);
  }

  #fail(error: unknown): void {
    this.#failure = error;
    this.close();
  }

  /** One connection, until it ends: welcome, result, then messages. */
  async #session(): Promise<Ending> {
    const session = new Session(this.#state, this.#queryId, (verdict) => this.#changed(verdict));
    const leave = (): void => session.closed(1000, "");
    this.#end.signal.addEventListener("abort", leave);
    try {
      session.socket = await this.#opened(session);
      await session.welcomed;
      await this.#follow(session);
      return await session.ended;
    } finally {
      this.#end.signal.removeEventListener("abort", leave);
      leave();
      session.socket.close();
    }
  }

  async #opened(session: Session<Row>): Promise<Socket> {
    try {
      return await openSocket({
        url: `${this.#gateway.base}/ws/${encodeURIComponent(this.#queryId)}`,
        token: await this.#gateway.token(),
        openWithinMs: WELCOME_WITHIN_MS,
        silentMs: this.#options.silentMs ?? 20_000,
        handlers: session,
        signal: this.#end.signal,
      });
    } catch (error) {
      if (error instanceof Unavailable && error.unexplained) await this.#refusalOfTheResult();
      throw error;
    }
  }

  /** A browser does not tell why a socket was refused; the result is refused for the same reason. */
  async #refusalOfTheResult(): Promise<void> {
    const { response, deadline } = await this.#gateway.ask(this.#resultPath, { signal: this.#end.signal });
    deadline.end();
    await response.body?.cancel();
  }

  /** Fetches the result at first and whenever it is asked for, until the connection ends. */
  async #follow(session: Session<Row>): Promise<void> {
    const backoff = new Backoff(this.#options.retry);
    this.#status.tell({ state: "refetching", reason: "connected" });
    while (await session.wantsResult()) {
      let verdict: Verdict;
      try {
        verdict = this.#state.result(await this.#fetched(session.over));
      } catch (error) {
        if (session.over.aborted) return;
        if (!(error instanceof Unavailable)) throw error;
        this.#status.tell({ state: "refetching", reason: error.message });
        await pause(backoff.next(error.retryAfterMs), session.over);
        session.refetch();
        continue;
      }
      if (verdict === "changed") this.#status.tell({ state: "live" });
      session.decided(verdict);
      if (verdict === "refetch") await pause(backoff.next(), session.over);
      else {
        backoff.reset();
        if (!(await session.asked())) return;
        this.#status.tell({ state: "refetching", reason: "a gap or an overflow" });
        await pause(Math.random() * (this.#options.spreadMs ?? 100), session.over);
      }
    }
  }

  get #resultPath(): string {
    return `/api/v1/q/${encodeURIComponent(this.#queryId)}/result`;
  }

  #fetched(signal: AbortSignal): Promise<string> {
    return this.#gateway.text(this.#resultPath, { signal });
  }

  /** Something to take: the first result, also an empty one, or rows that differ from those taken last. */
  #changed(verdict: Verdict): void {
    if (verdict !== "changed") return;
    if (this.#merged === 0 && !this.#first && !this.#state.set.changed) return;
    this.#first = false;
    this.#ready = true;
    if (++this.#merged === 2 && this.#waiters.length === 0) this.#status.tell({ state: "behind" });
    this.#wake();
  }

  #first = true;

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter();
  }
}

/** What one socket told, and what is to be done about it. */
class Session<Row> {
  readonly #over = new AbortController();
  readonly over = this.#over.signal;
  readonly #state: LiveState<Row>;
  readonly #queryId: string;
  readonly #onVerdict: (verdict: Verdict) => void;
  readonly ended: Promise<Ending>;
  readonly welcomed: Promise<void>;
  socket: Socket = { close: () => undefined };
  #end!: (ending: Ending) => void;
  #welcome!: () => void;
  #refuse!: (error: Error) => void;
  #greeted = false;
  #wanted = true;
  #wake: () => void = () => undefined;

  constructor(state: LiveState<Row>, queryId: string, onVerdict: (verdict: Verdict) => void) {
    this.#state = state;
    this.#queryId = queryId;
    this.#onVerdict = onVerdict;
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.welcomed = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Unavailable("no welcome came")), WELCOME_WITHIN_MS);
      this.#welcome = () => (clearTimeout(timer), resolve());
      this.#refuse = (error) => (clearTimeout(timer), reject(error));
    });
    // It may be refused before anybody listens.
    this.welcomed.catch(() => undefined);
    state.connected();
  }

  readonly message = (text: string): void => {
    if (this.over.aborted) return;
    try {
      if (!this.#greeted) this.#greet(text);
      else this.decided(this.#state.message(text));
    } catch (error) {
      this.#stop(1006, error instanceof Error ? error.message : "broken");
    }
  };

  readonly closed = (code: number, reason: string): void => {
    if (code === NO_LONGER_ALLOWED) this.#refuse(noLongerAllowed(this.#queryId));
    else this.#refuse(new Unavailable(`closed before the welcome (${code})`));
    this.#over.abort();
    this.#end({ code, reason });
    this.#wake();
  };

  decided(verdict: Verdict): void {
    if (verdict === "refetch") this.refetch();
    if (verdict === "reconnect") this.#stop(RE_REGISTERED, "registered anew");
    this.#onVerdict(verdict);
  }

  refetch(): void {
    this.#wanted = true;
    this.#wake();
  }

  /** Whether there is a result to be fetched; false when the connection is over. */
  async wantsResult(): Promise<boolean> {
    const wanted = await this.asked();
    this.#wanted = false;
    return wanted;
  }

  /** Waits until a result is wanted. */
  async asked(): Promise<boolean> {
    while (!this.#wanted && !this.over.aborted) await new Promise<void>((resolve) => (this.#wake = resolve));
    return !this.over.aborted;
  }

  #greet(text: string): void {
    const frame = JSON.parse(text) as { type?: unknown; query_id?: unknown };
    if (frame.type !== "subscribed" || frame.query_id !== this.#queryId) throw broken("no welcome first");
    this.#greeted = true;
    this.#welcome();
  }

  /** We leave, and know why. */
  #stop(code: number, reason: string): void {
    this.closed(code, reason);
    this.socket.close();
  }
}

function noLongerAllowed(queryId: string): TidewireError {
  return new TidewireError("no_longer_allowed", `you may no longer read '${queryId}': ask for the right, then begin again`, { status: 403 });
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof TidewireError && error.status === 401;
}

/** The rows of a query that was registered by pgr.subscribe, and each change of them. */
export function live<Row = Record<string, unknown>>(url: string | URL, queryId: string, options: LiveOptions<Row> = {}): LiveQuery<Row> {
  return new LiveQuery<Row>(url, queryId, options);
}
