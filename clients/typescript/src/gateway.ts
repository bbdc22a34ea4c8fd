/** Requests to one gateway: who asks, how long it may take, and what its refusals mean. */

import { TidewireError, Unavailable, givenUp } from "./errors.js";
import { Backoff, Deadline, pause, type Retry } from "./waiting.js";

/** A token, or what gives one: it is asked before each connection, so that a renewed one is taken up. */
export type Token = string | (() => string | Promise<string>);

export interface GatewayOptions {
  token?: Token;
  /** Ends everything that was begun with it. */
  signal?: AbortSignal;
  /** How long one request may go unanswered (30,000). */
  timeoutMs?: number;
  retry?: Retry;
}

export interface Request {
  method?: "GET" | "POST";
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  timeoutMs?: number;
}

const LONGEST_MESSAGE = 400;
const MAY_PASS = new Set([408, 425, 429, 500, 502, 503, 504]);
const NEXT_STEP: Record<number, string> = {
  401: "pass a token that this gateway accepts",
  403: "ask the operator of the gateway for the right",
  404: "see that it exists and that you may use it",
};

export class Gateway {
  /** http(s)://host:port, without a slash at its end. */
  readonly base: string;
  readonly retry: Retry;
  readonly #token: Token | undefined;
  readonly #timeoutMs: number;

  constructor(url: string | URL, options: GatewayOptions) {
    this.base = httpBase(url);
    this.#token = options.token;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.retry = options.retry ?? {};
  }

  /** Whether asking for the token again may bring another one. */
  get renewsToken(): boolean {
    return typeof this.#token === "function";
  }

  /** The token of now, or "" where there is none: then a proxy or a cookie says who asks. */
  async token(): Promise<string> {
    return typeof this.#token === "function" ? await this.#token() : (this.#token ?? "");
  }

  /** One answer, whose head has come; TidewireError if it is a refusal, Unavailable if it may pass. */
  async ask(path: string, request: Request = {}): Promise<{ response: Response; deadline: Deadline }> {
    try {
      return await this.#asked(path, request);
    } catch (error) {
      const expired = error instanceof TidewireError && error.status === 401 && this.renewsToken;
      if (!expired) throw error;
      return await this.#asked(path, request);
    }
  }

  async #asked(path: string, request: Request): Promise<{ response: Response; deadline: Deadline }> {
    const token = await this.token();
    const deadline = new Deadline(request.timeoutMs ?? this.#timeoutMs, request.signal);
    try {
      const response = await fetch(this.base + path, {
        method: request.method ?? "GET",
        headers: {
          ...(token === "" ? {} : { Authorization: `Bearer ${token}` }),
          ...(request.body === undefined ? {} : { "Content-Type": "application/json" }),
          ...request.headers,
        },
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
        signal: deadline.signal,
        cache: "no-store",
      });
      if (!response.ok) throw refusal(response, await response.text());
      return { response, deadline };
    } catch (error) {
      deadline.end();
      throw whatWentWrong(error, deadline, request.signal);
    }
  }

  /** The whole answer as text. */
  async text(path: string, request: Request = {}): Promise<string> {
    const { response, deadline } = await this.ask(path, request);
    try {
      return await response.text();
    } catch (error) {
      throw whatWentWrong(error, deadline, request.signal);
    } finally {
      deadline.end();
    }
  }

  /** The answer as JSON, asked for again until it comes or `patienceMs` are over. */
  async patiently(path: string, request: Request, patienceMs: number): Promise<unknown> {
    const backoff = new Backoff(this.retry);
    const until = Date.now() + patienceMs;
    for (;;) {
      try {
        return parsed(await this.text(path, request));
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
        const waitMs = backoff.next(error.retryAfterMs);
        if (Date.now() + waitMs > until) throw givenUp(`${request.method ?? "GET"} ${path}`, error);
        await pause(waitMs, request.signal ?? new AbortController().signal);
        request.signal?.throwIfAborted();
      }
    }
  }
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TidewireError("protocol", "the answer is no JSON: see that the address is a gateway's HTTP port", { cause: error });
  }
}

function httpBase(url: string | URL): string {
  let parts: URL;
  try {
    parts = new URL(url);
  } catch {
    throw new TidewireError("invalid_request", "this is no address of a gateway: write http://host:port");
  }
  const scheme = { "http:": "http:", "https:": "https:", "ws:": "http:", "wss:": "https:" }[parts.protocol];
  if (scheme === undefined || parts.username !== "" || parts.search !== "") {
    throw new TidewireError("invalid_request", "an address of a gateway is http://host:port: pass credentials as the option token");
  }
  return `${scheme}//${parts.host}${parts.pathname.replace(/\/+$/, "")}`;
}

/** Ours or the caller's abort, the deadline, or a connection that failed. */
function whatWentWrong(error: unknown, deadline: Deadline, signal: AbortSignal | undefined): unknown {
  if (error instanceof TidewireError || error instanceof Unavailable) return error;
  if (signal?.aborted) return signal.reason;
  if (deadline.passed) return new Unavailable("the gateway did not answer in time", { cause: error });
  const cause = (error as { cause?: { code?: unknown } }).cause?.code;
  return new Unavailable(`no connection to the gateway${typeof cause === "string" ? ` (${cause})` : ""}`, { cause: error });
}

function refusal(response: Response, body: string): Error {
  const { code, message } = told(body, response.status);
  if (MAY_PASS.has(response.status)) {
    const seconds = Number(response.headers.get("Retry-After"));
    return new Unavailable(`HTTP ${response.status}: ${message}`, { retryAfterMs: seconds > 0 ? Math.min(seconds, 300) * 1000 : 0 });
  }
  return refused(response.status, code, message);
}

/** The error of a status that will not pass by itself. */
export function refused(status: number, code: string, message: string): TidewireError {
  const step = NEXT_STEP[status];
  return new TidewireError(code, step === undefined ? message : `${message}: ${step}`, { status });
}

/** Code and message of an error body, in each of the forms that the doors have. */
export function told(body: string, status: number): { code: string; message: string } {
  let found: unknown;
  try {
    found = JSON.parse(body);
  } catch {
    found = undefined;
  }
  const outer = (found ?? {}) as { error?: unknown; code?: unknown };
  const inner = (typeof outer.error === "object" && outer.error !== null ? outer.error : { message: outer.error, code: outer.code }) as Record<string, unknown>;
  return {
    code: typeof inner.code === "string" ? inner.code : (CODES[status] ?? "refused"),
    message: typeof inner.message === "string" ? inner.message.slice(0, LONGEST_MESSAGE) : `the gateway answered ${status}`,
  };
}

const CODES: Record<number, string> = { 401: "unauthorized", 403: "forbidden", 404: "not_found", 503: "unavailable" };
