var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __commonJS = (cb, mod) => function __require() {
  try {
    return mod || (0, cb[__getOwnPropNames(cb)[0]])((mod = { exports: {} }).exports, mod), mod.exports;
  } catch (e) {
    throw mod = 0, e;
  }
};
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(
  // If the importer is in node compatibility mode or this is not an ESM
  // file that has been converted to a CommonJS file using a Babel-
  // compatible transform (i.e. "__esModule" has not been set), then set
  // "default" to the CommonJS "module.exports" for node compatibility.
  isNodeMode || !mod || !mod.__esModule ? __defProp(target, "default", { value: mod, enumerable: true }) : target,
  mod
));

// (disabled):dist/node-websocket.js
var require_node_websocket = __commonJS({
  "(disabled):dist/node-websocket.js"() {
  }
});

// dist/errors.js
var TidewireError = class extends Error {
  /** The gateway's code (`not_found`, `forbidden`, …), or one of ours (`no_longer_allowed`, `unreachable`, `protocol`). */
  code;
  /** The HTTP status, where there was an answer. */
  status;
  constructor(code, message, options = {}) {
    super(message, options.cause === void 0 ? void 0 : { cause: options.cause });
    this.name = "TidewireError";
    this.code = code;
    this.status = options.status;
  }
};
var ResnapshotRequired = class extends TidewireError {
  offset;
  reason;
  constructor(offset, reason) {
    super("resnapshot_required", `the changes in between are gone (${reason}): take the table anew, ack ${offset}, and iterate again`);
    this.name = "ResnapshotRequired";
    this.offset = offset;
    this.reason = reason;
  }
};
var Unavailable = class extends Error {
  /** How long the gateway asked to wait, if it did. */
  retryAfterMs;
  /** Whether asking in another way may tell more. */
  unexplained;
  constructor(message, options = {}) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs ?? 0;
    this.unexplained = options.unexplained ?? false;
  }
};
function givenUp(what, last) {
  return new TidewireError("unreachable", `${what} was not answered (${last.message}): see that the gateway runs, then try again`, { cause: last });
}

// dist/waiting.js
var Backoff = class {
  #firstMs;
  #longestMs;
  #random;
  #nextMs;
  constructor(retry = {}, random = Math.random) {
    this.#firstMs = retry.firstMs ?? 500;
    this.#longestMs = Math.max(this.#firstMs, retry.longestMs ?? 3e4);
    this.#random = random;
    this.#nextMs = this.#firstMs;
  }
  /** Between half of the step and the whole of it; never less than what the gateway asked for. */
  next(leastMs = 0) {
    const step = this.#nextMs;
    this.#nextMs = Math.min(this.#longestMs, 2 * step);
    return Math.max(leastMs, step * (0.5 + this.#random() / 2));
  }
  reset() {
    this.#nextMs = this.#firstMs;
  }
};
function pause(ms, signal) {
  return new Promise((resolve) => {
    if (signal.aborted)
      return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
var Deadline = class {
  #controller = new AbortController();
  #outer;
  #follow = () => this.#controller.abort(this.#outer?.reason);
  #timer;
  passed = false;
  constructor(ms, outer) {
    this.#outer = outer;
    if (outer?.aborted)
      this.#follow();
    outer?.addEventListener("abort", this.#follow);
    this.renew(ms);
  }
  get signal() {
    return this.#controller.signal;
  }
  /** So much time again from now. */
  renew(ms) {
    this.lift();
    this.#timer = setTimeout(() => {
      this.passed = true;
      this.#controller.abort(new Error(`no answer for ${ms / 1e3} s`));
    }, ms);
  }
  /** No deadline any more; the other signal still counts. */
  lift() {
    clearTimeout(this.#timer);
  }
  /** Nothing is watched any more. */
  end() {
    this.lift();
    this.#outer?.removeEventListener("abort", this.#follow);
  }
  /** Ends what listens to the signal. */
  abort() {
    this.#controller.abort();
    this.end();
  }
};

// dist/gateway.js
var LONGEST_MESSAGE = 400;
var MAY_PASS = /* @__PURE__ */ new Set([408, 425, 429, 500, 502, 503, 504]);
var NEXT_STEP = {
  401: "pass a token that this gateway accepts",
  403: "ask the operator of the gateway for the right",
  404: "see that it exists and that you may use it"
};
var Gateway = class {
  /** http(s)://host:port, without a slash at its end. */
  base;
  retry;
  #token;
  #timeoutMs;
  constructor(url, options) {
    this.base = httpBase(url);
    this.#token = options.token;
    this.#timeoutMs = options.timeoutMs ?? 3e4;
    this.retry = options.retry ?? {};
  }
  /** Whether asking for the token again may bring another one. */
  get renewsToken() {
    return typeof this.#token === "function";
  }
  /** The token of now, or "" where there is none: then a proxy or a cookie says who asks. */
  async token() {
    return typeof this.#token === "function" ? await this.#token() : this.#token ?? "";
  }
  /** One answer, whose head has come; TidewireError if it is a refusal, Unavailable if it may pass. */
  async ask(path, request = {}) {
    try {
      return await this.#asked(path, request);
    } catch (error) {
      const expired = error instanceof TidewireError && error.status === 401 && this.renewsToken;
      if (!expired)
        throw error;
      return await this.#asked(path, request);
    }
  }
  async #asked(path, request) {
    const token = await this.token();
    const deadline = new Deadline(request.timeoutMs ?? this.#timeoutMs, request.signal);
    try {
      const response = await fetch(this.base + path, {
        method: request.method ?? "GET",
        headers: {
          ...token === "" ? {} : { Authorization: `Bearer ${token}` },
          ...request.body === void 0 ? {} : { "Content-Type": "application/json" },
          ...request.headers
        },
        ...request.body === void 0 ? {} : { body: JSON.stringify(request.body) },
        signal: deadline.signal,
        cache: "no-store"
      });
      if (!response.ok)
        throw refusal(response, await response.text());
      return { response, deadline };
    } catch (error) {
      deadline.end();
      throw whatWentWrong(error, deadline, request.signal);
    }
  }
  /** The whole answer as text. */
  async text(path, request = {}) {
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
  async patiently(path, request, patienceMs) {
    const backoff = new Backoff(this.retry);
    const until = Date.now() + patienceMs;
    for (; ; ) {
      try {
        return parsed(await this.text(path, request));
      } catch (error) {
        if (!(error instanceof Unavailable))
          throw error;
        const waitMs = backoff.next(error.retryAfterMs);
        if (Date.now() + waitMs > until)
          throw givenUp(`${request.method ?? "GET"} ${path}`, error);
        await pause(waitMs, request.signal ?? new AbortController().signal);
        request.signal?.throwIfAborted();
      }
    }
  }
};
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TidewireError("protocol", "the answer is no JSON: see that the address is a gateway's HTTP port", { cause: error });
  }
}
function httpBase(url) {
  let parts2;
  try {
    parts2 = new URL(url);
  } catch {
    throw new TidewireError("invalid_request", "this is no address of a gateway: write http://host:port");
  }
  const scheme = { "http:": "http:", "https:": "https:", "ws:": "http:", "wss:": "https:" }[parts2.protocol];
  if (scheme === void 0 || parts2.username !== "" || parts2.search !== "") {
    throw new TidewireError("invalid_request", "an address of a gateway is http://host:port: pass credentials as the option token");
  }
  return `${scheme}//${parts2.host}${parts2.pathname.replace(/\/+$/, "")}`;
}
function whatWentWrong(error, deadline, signal) {
  if (error instanceof TidewireError || error instanceof Unavailable)
    return error;
  if (signal?.aborted)
    return signal.reason;
  if (deadline.passed)
    return new Unavailable("the gateway did not answer in time", { cause: error });
  const cause = error.cause?.code;
  return new Unavailable(`no connection to the gateway${typeof cause === "string" ? ` (${cause})` : ""}`, { cause: error });
}
function refusal(response, body) {
  const { code, message } = told(body, response.status);
  if (MAY_PASS.has(response.status)) {
    const seconds = Number(response.headers.get("Retry-After"));
    return new Unavailable(`HTTP ${response.status}: ${message}`, { retryAfterMs: seconds > 0 ? Math.min(seconds, 300) * 1e3 : 0 });
  }
  return refused(response.status, code, message);
}
function refused(status, code, message) {
  const step = NEXT_STEP[status];
  return new TidewireError(code, step === void 0 ? message : `${message}: ${step}`, { status });
}
function told(body, status) {
  let found;
  try {
    found = JSON.parse(body);
  } catch {
    found = void 0;
  }
  const outer = found ?? {};
  const inner = typeof outer.error === "object" && outer.error !== null ? outer.error : { message: outer.error, code: outer.code };
  return {
    code: typeof inner.code === "string" ? inner.code : CODES[status] ?? "refused",
    message: typeof inner.message === "string" ? inner.message.slice(0, LONGEST_MESSAGE) : `the gateway answered ${status}`
  };
}
var CODES = { 401: "unauthorized", 403: "forbidden", 404: "not_found", 503: "unavailable" };

// dist/rows.js
function members(text) {
  const found = /* @__PURE__ */ new Map();
  for (const part of parts(text)) {
    const colon = part.indexOf('"', 1) === -1 ? -1 : endOfString(part, 0);
    if (colon === -1)
      continue;
    found.set(JSON.parse(part.slice(0, colon)), part.slice(part.indexOf(":", colon) + 1).trim());
  }
  return found;
}
function elements(text) {
  return parts(text);
}
function parts(text) {
  const found = [];
  let depth = 0;
  let begin = 0;
  for (let at = 0; at < text.length; at++) {
    const sign = text.charCodeAt(at);
    if (sign === QUOTE)
      at = endOfString(text, at) - 1;
    else if (sign === OPEN_OBJECT || sign === OPEN_ARRAY) {
      if (++depth === 1)
        begin = at + 1;
    } else if (sign === CLOSE_OBJECT || sign === CLOSE_ARRAY) {
      if (--depth === 0)
        add(found, text.slice(begin, at));
    } else if (sign === COMMA && depth === 1) {
      add(found, text.slice(begin, at));
      begin = at + 1;
    }
  }
  return found;
}
var [QUOTE, BACKSLASH, COMMA] = [34, 92, 44];
var [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [123, 125, 91, 93];
function add(found, part) {
  const trimmed = part.trim();
  if (trimmed !== "")
    found.push(trimmed);
}
function endOfString(text, from) {
  let at = from + 1;
  while (at < text.length && text.charCodeAt(at) !== QUOTE)
    at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
  return at + 1;
}
var TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\s+/g;
function identity(text) {
  return text.replace(TOKENS, (token) => {
    if (token[0] === '"')
      return token.includes("\\") ? JSON.stringify(JSON.parse(token)) : token;
    return token.trim() === "" ? "" : canonicalNumber(token);
  });
}
function canonicalNumber(token) {
  const [, sign, whole2, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token);
  const all = (whole2 + fraction).replace(/^0+/, "");
  const digits = all.replace(/0+$/, "");
  if (digits === "")
    return "0";
  return `${sign}${digits}e${Number(exponent) - fraction.length + (all.length - digits.length)}`;
}
var RowSet = class {
  #parse;
  #held = /* @__PURE__ */ new Map();
  #inserted = /* @__PURE__ */ new Map();
  #deleted = /* @__PURE__ */ new Map();
  #rows;
  constructor(parse) {
    this.#parse = parse;
  }
  get rows() {
    return this.#rows ??= [...this.#held.values()].map((each) => each.row);
  }
  get changed() {
    return this.#inserted.size + this.#deleted.size > 0;
  }
  /** Applies a delta, or changes nothing and says false if it does not fit: then something is missing. */
  apply(inserted, deleted) {
    const gone = new Set(deleted.map(identity));
    const come = new Map(inserted.map((text) => [identity(text), text]));
    const fits = gone.size === deleted.length && come.size === inserted.length && [...gone].every((id) => this.#held.has(id)) && [...come.keys()].every((id) => gone.has(id) || !this.#held.has(id));
    if (!fits)
      return false;
    for (const id of gone)
      this.#remove(id);
    for (const [id, text] of come)
      this.#add(id, { text, row: this.#parse(text) });
    return true;
  }
  /** Becomes these rows; what stays keeps its object. */
  replace(texts) {
    const wanted = new Map(texts.map((text) => [identity(text), text]));
    for (const [id, held] of [...this.#held])
      if (wanted.get(id) !== held.text)
        this.#remove(id);
    const before = this.#held;
    this.#held = /* @__PURE__ */ new Map();
    for (const [id, text] of wanted) {
      const same = before.get(id);
      if (same === void 0)
        this.#add(id, { text, row: this.#parse(text) });
      else
        this.#held.set(id, same);
    }
    this.#rows = void 0;
  }
  /** The net change since the last call. */
  take() {
    const change = {
      inserted: [...this.#inserted.values()].map((each) => each.row),
      deleted: [...this.#deleted.values()].map((each) => each.row),
      rows: this.rows
    };
    this.#inserted.clear();
    this.#deleted.clear();
    return change;
  }
  #add(id, held) {
    const left = this.#deleted.get(id);
    const kept = left !== void 0 && left.text === held.text ? left : held;
    if (kept === left)
      this.#deleted.delete(id);
    else
      this.#inserted.set(id, kept);
    this.#held.set(id, kept);
    this.#rows = void 0;
  }
  #remove(id) {
    const held = this.#held.get(id);
    if (held === void 0)
      return;
    if (!this.#inserted.delete(id))
      this.#deleted.set(id, held);
    this.#held.delete(id);
    this.#rows = void 0;
  }
};

// dist/live-state.js
var MOST_WAITING = 1e3;
var MOST_WAITING_CHARACTERS = 4e6;
var MOST_STALE = 5;
var LiveState = class {
  set;
  #queryId;
  #gaps;
  #fetching = true;
  #waiting = [];
  #waitingCharacters = 0;
  #atLeast = -1;
  #stale = 0;
  gen = -1;
  seq = -1;
  constructor(queryId, parse, gaps = "refetch") {
    this.#queryId = queryId;
    this.set = new RowSet(parse);
    this.#gaps = gaps;
  }
  /** A new socket: what waited came by the old one, and only a result says where we are. */
  connected() {
    this.#fetching = true;
    this.#forget();
    this.#atLeast = -1;
  }
  message(text) {
    const message = read(text, this.#queryId);
    if (message === void 0)
      return "nothing";
    if (this.#fetching) {
      this.#wait(message);
      return "nothing";
    }
    return this.#judge(message);
  }
  /** The rows at a seq, fetched while messages waited; they go on from there. */
  result(text) {
    const found = members(text);
    const gen = whole(found.get("gen"));
    const seq = whole(found.get("seq"));
    const rows = found.get("rows");
    if (rows === void 0 || gen === void 0 || seq === void 0)
      throw broken("a result without seq, gen and rows");
    const older = gen === this.gen && seq < this.seq;
    if ((older || seq < this.#atLeast) && ++this.#stale < MOST_STALE)
      return "refetch";
    this.set.replace(elements(rows));
    [this.gen, this.seq, this.#stale, this.#atLeast, this.#fetching] = [gen, seq, 0, -1, false];
    return this.#resume();
  }
  #resume() {
    const waiting = this.#waiting;
    this.#forget();
    let verdict = "changed";
    for (const message of waiting) {
      if (this.#fetching)
        this.#wait(message);
      else {
        const next = this.#judge(message);
        if (next === "reconnect")
          return next;
        if (next === "refetch")
          verdict = next;
      }
    }
    return verdict;
  }
  #judge(message) {
    if (message.gen !== this.gen)
      return "reconnect";
    if (message.seq <= this.seq)
      return "nothing";
    const continues = message.seq === this.seq + 1 || this.#gaps === "trust";
    if (message.type === "" && continues && this.set.apply(message.inserted, message.deleted)) {
      this.seq = message.seq;
      return "changed";
    }
    this.#fetching = true;
    if (message.type === "" && !continues)
      this.#wait(message);
    else
      this.#atLeast = Math.max(this.#atLeast, message.seq);
    return "refetch";
  }
  #wait(message) {
    if (this.#waiting.length >= MOST_WAITING || this.#waitingCharacters + message.size > MOST_WAITING_CHARACTERS) {
      this.#atLeast = Math.max(this.#atLeast, message.seq, ...this.#waiting.slice(-1).map((each) => each.seq));
      this.#forget();
      return;
    }
    this.#waiting.push(message);
    this.#waitingCharacters += message.size;
  }
  #forget() {
    this.#waiting = [];
    this.#waitingCharacters = 0;
  }
};
function read(text, queryId) {
  let plain;
  try {
    plain = JSON.parse(text);
  } catch (error) {
    throw broken("a message that is no JSON", error);
  }
  if (typeof plain !== "object" || plain === null)
    throw broken("a message that is no object");
  if (plain.query_id !== queryId)
    throw broken("a message of another query");
  const type = plain.type ?? "";
  if (type !== "" && type !== "overflow" && type !== "invalidated")
    return void 0;
  if (!Number.isSafeInteger(plain.seq) || !Number.isSafeInteger(plain.gen))
    throw broken("a message without seq and gen");
  const found = type === "" ? members(text) : /* @__PURE__ */ new Map();
  const [inserted, deleted] = [found.get("inserted"), found.get("deleted")];
  if (type === "" && (inserted === void 0 || deleted === void 0))
    throw broken("a delta without inserted and deleted");
  return {
    type,
    gen: plain.gen,
    seq: plain.seq,
    inserted: elements(inserted ?? "[]"),
    deleted: elements(deleted ?? "[]"),
    size: text.length
  };
}
function whole(text) {
  return text !== void 0 && /^\d+$/.test(text) ? Number(text) : void 0;
}
function broken(what, cause) {
  return new TidewireError("protocol", `the gateway sent ${what}: see that client and gateway are of one release`, { cause });
}

// dist/status.js
function tell(listener, status) {
  try {
    listener?.(status);
  } catch (error) {
    if (typeof reportError === "function")
      reportError(error);
    else
      console.error(error);
  }
}

// dist/live-status.js
var Status = class {
  #listener;
  now = { state: "connecting" };
  constructor(listener) {
    this.#listener = listener;
  }
  tell(status) {
    if (this.now.state === "ended")
      return;
    this.now = status;
    tell(this.#listener, status);
  }
  caughtUp() {
    if (this.now.state === "behind")
      this.tell({ state: "live" });
  }
};

// dist/websocket.js
async function openSocket(request) {
  if (globalThis.process?.release?.name === "node") {
    const { openNodeSocket } = await Promise.resolve().then(() => __toESM(require_node_websocket(), 1));
    return openNodeSocket(request);
  }
  return openBrowserSocket(request);
}
function openBrowserSocket(request) {
  const url = new URL(request.url.replace(/^http/, "ws"));
  if (request.token !== "")
    url.searchParams.set("token", request.token);
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    let opened = false;
    const leave = () => socket.close();
    const timer = setTimeout(leave, request.openWithinMs);
    request.signal.addEventListener("abort", leave);
    socket.onopen = () => {
      opened = true;
      clearTimeout(timer);
      resolve({ close: (code) => socket.close(code ?? 1e3) });
    };
    socket.onmessage = (event) => {
      if (typeof event.data === "string")
        request.handlers.message(event.data);
    };
    socket.onclose = (event) => {
      clearTimeout(timer);
      request.signal.removeEventListener("abort", leave);
      if (opened)
        request.handlers.closed(event.code, event.reason);
      else
        reject(new Unavailable("the WebSocket could not be opened", { unexplained: true }));
    };
    if (request.signal.aborted)
      leave();
  });
}

// dist/live.js
var RE_REGISTERED = 4001;
var NO_LONGER_ALLOWED = 4003;
var WELCOME_WITHIN_MS = 15e3;
var GOOD_AFTER_MS = 5e3;
var LiveQuery = class {
  #gateway;
  #queryId;
  #options;
  #state;
  #status;
  #end = new AbortController();
  #backoff;
  #running;
  #ready = false;
  #merged = 0;
  #failure;
  #waiters = [];
  constructor(url, queryId, options = {}) {
    this.#gateway = new Gateway(url, options);
    this.#queryId = queryId;
    this.#options = options;
    this.#state = new LiveState(queryId, options.parseRow ?? ((text) => JSON.parse(text)), options.gaps);
    this.#status = new Status(options.onStatus);
    this.#backoff = new Backoff(options.retry);
    if (options.signal?.aborted)
      this.close();
    options.signal?.addEventListener("abort", this.#close);
  }
  #close = () => this.close();
  /** The rows of now, also those of changes that were not taken yet. */
  get rows() {
    return this.#state.set.rows;
  }
  get status() {
    return this.#status.now;
  }
  [Symbol.asyncIterator]() {
    return this;
  }
  async next() {
    this.#running ??= this.#run();
    while (!this.#ready && !this.#end.signal.aborted)
      await new Promise((resolve) => this.#waiters.push(resolve));
    if (this.#failure !== void 0)
      throw this.#failure;
    if (this.#end.signal.aborted)
      return { done: true, value: void 0 };
    this.#ready = false;
    if (this.#merged > 1)
      this.#status.caughtUp();
    this.#merged = 0;
    return { done: false, value: { ...this.#state.set.take(), seq: this.#state.seq, gen: this.#state.gen } };
  }
  async return() {
    this.close();
    await this.#running;
    return { done: true, value: void 0 };
  }
  close() {
    if (this.#end.signal.aborted)
      return;
    this.#end.abort();
    this.#options.signal?.removeEventListener("abort", this.#close);
    this.#status.tell({ state: "ended" });
    this.#wake();
  }
  async #run() {
    let renewed = false;
    while (!this.#end.signal.aborted) {
      this.#status.tell({ state: "connecting" });
      const began = Date.now();
      try {
        const ending = await this.#session();
        renewed = false;
        if (ending.code === NO_LONGER_ALLOWED)
          throw noLongerAllowed(this.#queryId);
        if (Date.now() - began > GOOD_AFTER_MS)
          this.#backoff.reset();
        if (ending.code === RE_REGISTERED)
          this.#backoff.reset();
        await this.#wait(`the connection ended (${ending.code}${ending.reason === "" ? "" : `: ${ending.reason}`})`, 0);
      } catch (error) {
        if (this.#end.signal.aborted)
          return;
        if (error instanceof Unavailable)
          await this.#wait(error.message, error.retryAfterMs);
        else if (error instanceof TidewireError && error.code === "protocol")
          await this.#wait(error.message, 0);
        else if (isUnauthorized(error) && this.#gateway.renewsToken && !renewed)
          renewed = true;
        else
          return this.#fail(error);
      }
    }
  }
  #wait(reason, leastMs) {
    if (this.#end.signal.aborted)
      return Promise.resolve();
    const retryInMs = Math.round(this.#backoff.next(leastMs));
    this.#status.tell({ state: "waiting", reason, retryInMs });
    return pause(retryInMs, this.#end.signal);
  }
  #fail(error) {
    this.#failure = error;
    this.close();
  }
  /** One connection, until it ends: welcome, result, then messages. */
  async #session() {
    const session = new Session(this.#state, this.#queryId, (verdict) => this.#changed(verdict));
    const leave = () => session.closed(1e3, "");
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
  async #opened(session) {
    try {
      return await openSocket({
        url: `${this.#gateway.base}/ws/${encodeURIComponent(this.#queryId)}`,
        token: await this.#gateway.token(),
        openWithinMs: WELCOME_WITHIN_MS,
        silentMs: this.#options.silentMs ?? 2e4,
        handlers: session,
        signal: this.#end.signal
      });
    } catch (error) {
      if (error instanceof Unavailable && error.unexplained)
        await this.#refusalOfTheResult();
      throw error;
    }
  }
  /** A browser does not tell why a socket was refused; the result is refused for the same reason. */
  async #refusalOfTheResult() {
    const { response, deadline } = await this.#gateway.ask(this.#resultPath, { signal: this.#end.signal });
    deadline.end();
    await response.body?.cancel();
  }
  /** Fetches the result at first and whenever it is asked for, until the connection ends. */
  async #follow(session) {
    const backoff = new Backoff(this.#options.retry);
    this.#status.tell({ state: "refetching", reason: "connected" });
    while (await session.wantsResult()) {
      let verdict;
      try {
        verdict = this.#state.result(await this.#fetched(session.over));
      } catch (error) {
        if (session.over.aborted)
          return;
        if (!(error instanceof Unavailable))
          throw error;
        this.#status.tell({ state: "refetching", reason: error.message });
        await pause(backoff.next(error.retryAfterMs), session.over);
        session.refetch();
        continue;
      }
      if (verdict === "changed")
        this.#status.tell({ state: "live" });
      session.decided(verdict);
      if (verdict === "refetch")
        await pause(backoff.next(), session.over);
      else {
        backoff.reset();
        if (!await session.asked())
          return;
        this.#status.tell({ state: "refetching", reason: "a gap or an overflow" });
        await pause(Math.random() * (this.#options.spreadMs ?? 100), session.over);
      }
    }
  }
  get #resultPath() {
    return `/api/v1/q/${encodeURIComponent(this.#queryId)}/result`;
  }
  #fetched(signal) {
    return this.#gateway.text(this.#resultPath, { signal });
  }
  /** Something to take: the first result, also an empty one, or rows that differ from those taken last. */
  #changed(verdict) {
    if (verdict !== "changed")
      return;
    if (this.#merged === 0 && !this.#first && !this.#state.set.changed)
      return;
    this.#first = false;
    this.#ready = true;
    if (++this.#merged === 2 && this.#waiters.length === 0)
      this.#status.tell({ state: "behind" });
    this.#wake();
  }
  #first = true;
  #wake() {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters)
      waiter();
  }
};
var Session = class {
  #over = new AbortController();
  over = this.#over.signal;
  #state;
  #queryId;
  #onVerdict;
  ended;
  welcomed;
  socket = { close: () => void 0 };
  #end;
  #welcome;
  #refuse;
  #greeted = false;
  #wanted = true;
  #wake = () => void 0;
  constructor(state, queryId, onVerdict) {
    this.#state = state;
    this.#queryId = queryId;
    this.#onVerdict = onVerdict;
    this.ended = new Promise((resolve) => this.#end = resolve);
    this.welcomed = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Unavailable("no welcome came")), WELCOME_WITHIN_MS);
      this.#welcome = () => (clearTimeout(timer), resolve());
      this.#refuse = (error) => (clearTimeout(timer), reject(error));
    });
    this.welcomed.catch(() => void 0);
    state.connected();
  }
  message = (text) => {
    if (this.over.aborted)
      return;
    try {
      if (!this.#greeted)
        this.#greet(text);
      else
        this.decided(this.#state.message(text));
    } catch (error) {
      this.#stop(1006, error instanceof Error ? error.message : "broken");
    }
  };
  closed = (code, reason) => {
    if (code === NO_LONGER_ALLOWED)
      this.#refuse(noLongerAllowed(this.#queryId));
    else
      this.#refuse(new Unavailable(`closed before the welcome (${code})`));
    this.#over.abort();
    this.#end({ code, reason });
    this.#wake();
  };
  decided(verdict) {
    if (verdict === "refetch")
      this.refetch();
    if (verdict === "reconnect")
      this.#stop(RE_REGISTERED, "registered anew");
    this.#onVerdict(verdict);
  }
  refetch() {
    this.#wanted = true;
    this.#wake();
  }
  /** Whether there is a result to be fetched; false when the connection is over. */
  async wantsResult() {
    const wanted = await this.asked();
    this.#wanted = false;
    return wanted;
  }
  /** Waits until a result is wanted. */
  async asked() {
    while (!this.#wanted && !this.over.aborted)
      await new Promise((resolve) => this.#wake = resolve);
    return !this.over.aborted;
  }
  #greet(text) {
    const frame = JSON.parse(text);
    if (frame.type !== "subscribed" || frame.query_id !== this.#queryId)
      throw broken("no welcome first");
    this.#greeted = true;
    this.#welcome();
  }
  /** We leave, and know why. */
  #stop(code, reason) {
    this.closed(code, reason);
    this.socket.close();
  }
};
function noLongerAllowed(queryId) {
  return new TidewireError("no_longer_allowed", `you may no longer read '${queryId}': ask for the right, then begin again`, { status: 403 });
}
function isUnauthorized(error) {
  return error instanceof TidewireError && error.status === 401;
}
function live(url, queryId, options = {}) {
  return new LiveQuery(url, queryId, options);
}

// dist/sse.js
var LONGEST_EVENT = 64 * 1024 * 1024;
var SseReader = class {
  #rest = "";
  #afterReturn = false;
  #name = "";
  #data = [];
  #characters = 0;
  #first = true;
  id = "";
  /** The events that are whole now. */
  feed(piece) {
    const events = [];
    let text = piece;
    if (this.#first && text !== "") {
      this.#first = false;
      if (text.charCodeAt(0) === 65279)
        text = text.slice(1);
    }
    if (this.#afterReturn && text !== "") {
      this.#afterReturn = false;
      if (text[0] === "\n")
        text = text.slice(1);
    }
    text = this.#rest + text;
    let begin = 0;
    for (; ; ) {
      const end = endOfLine(text, begin);
      if (end === -1)
        break;
      const event = this.#line(text.slice(begin, end));
      if (event !== void 0)
        events.push(event);
      begin = end + 1;
      if (text[end] === "\r") {
        if (begin === text.length)
          this.#afterReturn = true;
        else if (text[begin] === "\n")
          begin++;
      }
    }
    this.#rest = text.slice(begin);
    this.#bounded(this.#rest.length);
    return events;
  }
  #line(line) {
    if (line === "")
      return this.#event();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event")
      this.#name = value;
    else if (field === "id" && !value.includes("\0"))
      this.id = value;
    else if (field === "data") {
      this.#data.push(value);
      this.#characters += value.length;
      this.#bounded(0);
    }
    return void 0;
  }
  #event() {
    const event = this.#data.length === 0 ? void 0 : { name: this.#name === "" ? "message" : this.#name, data: this.#data.join("\n"), id: this.id };
    [this.#name, this.#data, this.#characters] = ["", [], 0];
    return event;
  }
  #bounded(more) {
    if (this.#characters + more > LONGEST_EVENT)
      throw new TidewireError("protocol", "one event is larger than 64 MiB: ask for fewer columns");
  }
};
function endOfLine(text, from) {
  const feed = text.indexOf("\n", from);
  const back = text.indexOf("\r", from);
  if (feed === -1 || back === -1)
    return Math.max(feed, back);
  return Math.min(feed, back);
}

// dist/cdc.js
var RPC = "/api/v1/rpc";
var CdcSubscription = class {
  #gateway;
  #options;
  #patienceMs;
  #subject;
  #subscribing;
  #offset;
  constructor(url, subject, options = {}) {
    this.#gateway = new Gateway(url, options);
    this.#subject = subject;
    this.#options = options;
    this.#patienceMs = options.timeoutMs ?? 3e4;
    this.#offset = options.fromOffset;
  }
  /** The offset up to which events were handed out; undefined before the first. */
  get offset() {
    return this.#offset;
  }
  /** Its id, by which any process goes on with it; subscribes if that was not done yet. */
  id() {
    if (this.#subscribing === void 0) {
      this.#subscribing = this.#subscribe();
      this.#subscribing.catch(() => this.#subscribing = void 0);
    }
    return this.#subscribing;
  }
  /** Ends quietly by the signal; ResnapshotRequired or TidewireError where the subscription cannot go on. */
  async *[Symbol.asyncIterator]() {
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
            if (found !== void 0)
              yield found;
          }
        } catch (error) {
          if (signal.aborted)
            return;
          if (!(error instanceof Unavailable))
            throw error;
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
  async ack(upto) {
    const offset = typeof upto === "number" ? upto : upto.seq;
    const answer = await this.call("cdc.ack", { sub_id: await this.id(), offset });
    this.#offset = Math.max(this.#offset ?? 0, answer.acked_offset);
    return answer.acked_offset;
  }
  async pause() {
    await this.call("cdc.pause", { sub_id: await this.id() });
  }
  async resume() {
    await this.call("cdc.resume", { sub_id: await this.id() });
  }
  /** For ever: the gateway forgets it. */
  async drop() {
    await this.call("cdc.close", { sub_id: await this.id() });
  }
  /** Any method of the door; waits while the gateway says that it is not ready. */
  async call(method, params) {
    const body = { skeinql: "1.0", id: 1, method, params };
    const answer = await this.#gateway.patiently(RPC, { method: "POST", body, signal: this.#options.signal }, this.#patienceMs);
    if (answer.ok === true)
      return answer.result;
    throw failure(answer.error);
  }
  async #subscribe() {
    if (typeof this.#subject === "string")
      return this.#subject;
    const method = "table" in this.#subject ? "cdc.subscribe_table" : "cdc.subscribe_query";
    const made = await this.call(method, this.#subject);
    this.#offset ??= made.offset;
    return made.sub_id;
  }
  /** The events of one connection; a reader that does not ask for the next one lets the connection fill, not memory. */
  async *#stream(signal) {
    this.#tell({ state: "connecting" });
    const path = `/api/v1/cdc/sse/${encodeURIComponent(await this.id())}`;
    const headers = { Accept: "text/event-stream", ...this.#offset === void 0 ? {} : { "Last-Event-ID": String(this.#offset) } };
    const { response, deadline } = await this.#gateway.ask(path, { headers, signal });
    const reader = response.body?.getReader();
    if (reader === void 0)
      return;
    this.#tell({ state: "live" });
    try {
      yield* this.#read(reader, deadline, signal);
    } finally {
      deadline.abort();
      reader.cancel().catch(() => void 0);
    }
  }
  async *#read(reader, deadline, signal) {
    const [sse, decoder, silentMs] = [new SseReader(), new TextDecoder(), this.#options.silentMs ?? 6e4];
    for (; ; ) {
      deadline.renew(silentMs);
      let piece;
      try {
        piece = await reader.read();
      } catch (error) {
        signal.throwIfAborted();
        throw new Unavailable(deadline.passed ? "the stream fell silent" : "the stream broke off", { cause: error });
      }
      deadline.lift();
      if (piece.done)
        return;
      yield* sse.feed(decoder.decode(piece.value, { stream: true }));
    }
  }
  #taken(event) {
    const data = parsed(event.data);
    switch (event.name) {
      case "backpressure":
        this.#tell({ state: "backpressure", backpressure: data });
        return void 0;
      case "resnapshot":
        throw new ResnapshotRequired(Number(data.resnapshot_from_offset), String(data.resnapshot_reason));
      case "error":
        throw failure(data);
    }
    const seq = Number(data.seq);
    if (seq <= (this.#offset ?? -1))
      return void 0;
    this.#offset = seq;
    return { ...data, ack: () => this.ack(seq) };
  }
  #tell(status) {
    tell(this.#options.onStatus, status);
  }
};
var NEXT_STEP2 = {
  not_found: "subscribe again",
  forbidden: "ask for SELECT on the whole table",
  unauthorized: "pass a token that this gateway accepts"
};
function failure(error) {
  const [code, message] = [error?.code ?? "protocol", error?.message ?? "the answer is no envelope"];
  const step = NEXT_STEP2[code];
  return new TidewireError(code, step === void 0 ? message : `${message}: ${step}`);
}
function cdc(url, subject, options = {}) {
  return new CdcSubscription(url, subject, options);
}

// dist/topic.js
var PATH = "/api/topics/";
var PATIENCE_MS = 3e4;
var Topic = class {
  #gateway;
  #name;
  #options;
  constructor(url, name, options = {}) {
    this.#gateway = new Gateway(url, options);
    this.#name = name;
    this.#options = options;
  }
  /** Without end; the next answer is asked for when the messages of the last one were taken. */
  async *consume(options = {}) {
    const signal = both(this.#options.signal, options.signal);
    const backoff = new Backoff(this.#gateway.retry);
    let start = options.start ?? "Latest";
    while (!signal.aborted) {
      let answer;
      try {
        tell(options.onStatus, { state: "consuming" });
        answer = await this.#consumed(start, options, signal);
      } catch (error) {
        if (signal.aborted)
          return;
        if (!(error instanceof Unavailable))
          throw error;
        const retryInMs = Math.round(backoff.next(error.retryAfterMs));
        tell(options.onStatus, { state: "waiting", reason: error.message, retryInMs });
        await pause(retryInMs, signal);
        continue;
      }
      backoff.reset();
      if (answer.trimmed === true)
        tell(options.onStatus, { state: "trimmed", offset: answer.messages[0]?.offset ?? answer.next_offset });
      if (this.#options.group === void 0 || answer.messages.length === 0)
        start = { Offset: answer.next_offset };
      for (const message of answer.messages) {
        if (signal.aborted)
          return;
        yield this.#message(message, answer.claim_id ?? void 0);
      }
    }
  }
  /** Everything up to this offset is done with: for a group with one consumer. */
  async ack(uptoOffset, partition = 0, claimId) {
    const body = { ...this.#grouped(), partition_id: partition, upto_offset: uptoOffset, ...claimId === void 0 ? {} : { claim_id: claimId } };
    await this.#post("ack", body);
  }
  async nack(offset, reason, partition = 0) {
    await this.#post("nack", { ...this.#grouped(), partition_id: partition, offset, reason });
  }
  async #post(path, body) {
    await this.#gateway.patiently(PATH + path, { method: "POST", body, signal: this.#options.signal }, PATIENCE_MS);
  }
  async #consumed(start, options, signal) {
    const timeoutSeconds = options.timeoutSeconds ?? 30;
    const body = {
      topic: this.#name,
      ...this.#options.group === void 0 ? {} : { group_id: this.#options.group },
      start,
      limit: options.limit ?? 100,
      partition_id: options.partition ?? 0,
      timeout_seconds: timeoutSeconds
    };
    const timeoutMs = timeoutSeconds * 1e3 + PATIENCE_MS;
    const answer = JSON.parse(await this.#gateway.text(`${PATH}consume`, { method: "POST", body, signal, timeoutMs }));
    if (!Array.isArray(answer.messages))
      throw new TidewireError("protocol", "the answer has no messages: see that the address is a gateway's HTTP port");
    return answer;
  }
  #message(told2, claimId) {
    const payload = Uint8Array.from(atob(told2.payload), (sign) => sign.charCodeAt(0));
    return {
      ...told2,
      payload,
      value: JSON.parse(new TextDecoder().decode(payload)),
      ack: () => this.ack(told2.offset, told2.partition_id, claimId),
      nack: (reason) => this.nack(told2.offset, reason, told2.partition_id)
    };
  }
  #grouped() {
    if (this.#options.group === void 0)
      throw new TidewireError("invalid_request", "without a group there is nothing to ack: pass the option group");
    return { topic: this.#name, group_id: this.#options.group };
  }
};
function both(...signals) {
  const given = signals.filter((each) => each !== void 0);
  if (given.length === 1)
    return given[0];
  const joined = new AbortController();
  for (const each of given) {
    if (each.aborted)
      joined.abort(each.reason);
    each.addEventListener("abort", () => joined.abort(each.reason), { once: true });
  }
  return joined.signal;
}
function topic(url, name, options = {}) {
  return new Topic(url, name, options);
}
export {
  CdcSubscription,
  LiveQuery,
  ResnapshotRequired,
  TidewireError,
  Topic,
  cdc,
  live,
  topic
};
