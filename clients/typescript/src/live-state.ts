/** What a live query knows: the rows at one seq of one gen, and what each message does to them. Pure: no socket, no clock. */

import { TidewireError } from "./errors.js";
import { RowSet, elements, members } from "./rows.js";

/** What the connection has to do after a message or a result. */
export type Verdict = "nothing" | "changed" | "refetch" | "reconnect";

/** `refetch` believes no gap; `trust` takes it for changes that left the result as it was (see the README). */
export type Gaps = "refetch" | "trust";

interface Message {
  type: string;
  gen: number;
  seq: number;
  inserted: string[];
  deleted: string[];
  size: number;
}

/** What may wait for a result that is being fetched. More is forgotten, and the result must be as new as it. */
export const MOST_WAITING = 1_000;
export const MOST_WAITING_CHARACTERS = 4_000_000;
/** After so many results in a row that are older than what is known, the gateway's word counts. */
export const MOST_STALE = 5;

export class LiveState<Row> {
  readonly set: RowSet<Row>;
  readonly #queryId: string;
  readonly #gaps: Gaps;
  #fetching = true;
  #waiting: Message[] = [];
  #waitingCharacters = 0;
  #atLeast = -1;
  #stale = 0;
  gen = -1;
  seq = -1;

  constructor(queryId: string, parse: (text: string) => Row, gaps: Gaps = "refetch") {
    this.#queryId = queryId;
    this.set = new RowSet(parse);
    this.#gaps = gaps;
  }

  /** A new socket: what waited came by the old one, and only a result says where we are. */
  connected(): void {
    this.#fetching = true;
    this.#forget();
    this.#atLeast = -1;
  }

  message(text: string): Verdict {
    const message = read(text, this.#queryId);
    if (message === undefined) return "nothing";
    if (this.#fetching) {
      this.#wait(message);
      return "nothing";
    }
    return this.#judge(message);
  }

  /** The rows at a seq, fetched while messages waited; they go on from there. */
  result(text: string): Verdict {
    const found = members(text);
    const gen = whole(found.get("gen"));
    const seq = whole(found.get("seq"));
    const rows = found.get("rows");
    if (rows === undefined || gen === undefined || seq === undefined) throw broken("a result without seq, gen and rows");
    const older = gen === this.gen && seq < this.seq;
    if ((older || seq < this.#atLeast) && ++this.#stale < MOST_STALE) return "refetch";
    this.set.replace(elements(rows));
    [this.gen, this.seq, this.#stale, this.#atLeast, this.#fetching] = [gen, seq, 0, -1, false];
    return this.#resume();
  }

  #resume(): Verdict {
    const waiting = this.#waiting;
    this.#forget();
    let verdict: Verdict = "changed";
    for (const message of waiting) {
      if (this.#fetching) this.#wait(message);
      else {
        const next = this.#judge(message);
        if (next === "reconnect") return next;
        if (next === "refetch") verdict = next;
      }
    }
    return verdict;
  }

  #judge(message: Message): Verdict {
    if (message.gen !== this.gen) return "reconnect";
    if (message.seq <= this.seq) return "nothing";
    const continues = message.seq === this.seq + 1 || this.#gaps === "trust";
    if (message.type === "" && continues && this.set.apply(message.inserted, message.deleted)) {
      this.seq = message.seq;
      return "changed";
    }
    this.#fetching = true;
    // A delta behind a gap may still fit what the result says; the others only say how new the result must be.
    if (message.type === "" && !continues) this.#wait(message);
    else this.#atLeast = Math.max(this.#atLeast, message.seq);
    return "refetch";
  }

  #wait(message: Message): void {
    if (this.#waiting.length >= MOST_WAITING || this.#waitingCharacters + message.size > MOST_WAITING_CHARACTERS) {
      this.#atLeast = Math.max(this.#atLeast, message.seq, ...this.#waiting.slice(-1).map((each) => each.seq));
      this.#forget();
      return;
    }
    this.#waiting.push(message);
    this.#waitingCharacters += message.size;
  }

  #forget(): void {
    this.#waiting = [];
    this.#waitingCharacters = 0;
  }
}

/** A data message of this query; undefined for what is none (a welcome, or a kind that is newer than this client). */
function read(text: string, queryId: string): Message | undefined {
  let plain: { type?: unknown; query_id?: unknown; seq?: unknown; gen?: unknown };
  try {
    plain = JSON.parse(text) as typeof plain;
  } catch (error) {
    throw broken("a message that is no JSON", error);
  }
  if (typeof plain !== "object" || plain === null) throw broken("a message that is no object");
  if (plain.query_id !== queryId) throw broken("a message of another query");
  const type = plain.type ?? "";
  if (type !== "" && type !== "overflow" && type !== "invalidated") return undefined;
  if (!Number.isSafeInteger(plain.seq) || !Number.isSafeInteger(plain.gen)) throw broken("a message without seq and gen");
  const found = type === "" ? members(text) : new Map<string, string>();
  const [inserted, deleted] = [found.get("inserted"), found.get("deleted")];
  if (type === "" && (inserted === undefined || deleted === undefined)) throw broken("a delta without inserted and deleted");
  return {
    type,
    gen: plain.gen as number,
    seq: plain.seq as number,
    inserted: elements(inserted ?? "[]"),
    deleted: elements(deleted ?? "[]"),
    size: text.length,
  };
}

function whole(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Not a gateway of ours, or one of another age: the connection is given up and tried again. */
export function broken(what: string, cause?: unknown): TidewireError {
  return new TidewireError("protocol", `the gateway sent ${what}: see that client and gateway are of one release`, { cause });
}
