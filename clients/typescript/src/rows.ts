/** The rows of a live result as a set, from the gateway's own JSON text. */

/** The text of each member of a JSON object, and of each element of a JSON array, without reading what is inside. */
export function members(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of parts(text)) {
    const colon = part.indexOf('"', 1) === -1 ? -1 : endOfString(part, 0);
    if (colon === -1) continue;
    found.set(JSON.parse(part.slice(0, colon)) as string, part.slice(part.indexOf(":", colon) + 1).trim());
  }
  return found;
}

export function elements(text: string): string[] {
  return parts(text);
}

/** What stands between the commas of the outermost brackets. */
function parts(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let begin = 0;
  for (let at = 0; at < text.length; at++) {
    const sign = text.charCodeAt(at);
    if (sign === QUOTE) at = endOfString(text, at) - 1;
    else if (sign === OPEN_OBJECT || sign === OPEN_ARRAY) {
      if (++depth === 1) begin = at + 1;
    } else if (sign === CLOSE_OBJECT || sign === CLOSE_ARRAY) {
      if (--depth === 0) add(found, text.slice(begin, at));
    } else if (sign === COMMA && depth === 1) {
      add(found, text.slice(begin, at));
      begin = at + 1;
    }
  }
  return found;
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];

function add(found: string[], part: string): void {
  const trimmed = part.trim();
  if (trimmed !== "") found.push(trimmed);
}

/** The place behind the string that begins here. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
  return at + 1;
}

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\s+/g;

/**
 * The text by which a row is found again. Numbers count by their value, with all their digits: PostgreSQL's sets hold
 * 1.0 and 1.00 for equal, and JavaScript's numbers would hold 9007199254740992 and 9007199254740993 for equal.
 */
export function identity(text: string): string {
  return text.replace(TOKENS, (token) => {
    if (token[0] === '"') return token.includes("\\") ? JSON.stringify(JSON.parse(token)) : token;
    return token.trim() === "" ? "" : canonicalNumber(token);
  });
}

function canonicalNumber(token: string): string {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token) as unknown as string[];
  const all = (whole + fraction).replace(/^0+/, "");
  const digits = all.replace(/0+$/, "");
  if (digits === "") return "0";
  return `${sign}${digits}e${Number(exponent) - fraction.length + (all.length - digits.length)}`;
}

interface Held<Row> {
  text: string;
  row: Row;
}

/** What entered and left the result since the reader looked last; applied to what it had, it gives `rows`. */
export interface NetChange<Row> {
  inserted: Row[];
  deleted: Row[];
  rows: readonly Row[];
}

/** The set, and its net change since it was last read: both are bounded by the result itself, however slow the reader is. */
export class RowSet<Row> {
  readonly #parse: (text: string) => Row;
  #held = new Map<string, Held<Row>>();
  readonly #inserted = new Map<string, Held<Row>>();
  readonly #deleted = new Map<string, Held<Row>>();
  #rows: readonly Row[] | undefined;

  constructor(parse: (text: string) => Row) {
    this.#parse = parse;
  }

  get rows(): readonly Row[] {
    return (this.#rows ??= [...this.#held.values()].map((each) => each.row));
  }

  get changed(): boolean {
    return this.#inserted.size + this.#deleted.size > 0;
  }

  /** Applies a delta, or changes nothing and says false if it does not fit: then something is missing. */
  apply(inserted: readonly string[], deleted: readonly string[]): boolean {
    const gone = new Set(deleted.map(identity));
    const come = new Map(inserted.map((text) => [identity(text), text]));
    const fits =
      gone.size === deleted.length &&
      come.size === inserted.length &&
      [...gone].every((id) => this.#held.has(id)) &&
      [...come.keys()].every((id) => gone.has(id) || !this.#held.has(id));
    if (!fits) return false;
    for (const id of gone) this.#remove(id);
    for (const [id, text] of come) this.#add(id, { text, row: this.#parse(text) });
    return true;
  }

  /** Becomes these rows; what stays keeps its object. */
  replace(texts: readonly string[]): void {
    const wanted = new Map(texts.map((text) => [identity(text), text]));
    for (const [id, held] of [...this.#held]) if (wanted.get(id) !== held.text) this.#remove(id);
    const before = this.#held;
    this.#held = new Map();
    for (const [id, text] of wanted) {
      const same = before.get(id);
      if (same === undefined) this.#add(id, { text, row: this.#parse(text) });
      else this.#held.set(id, same);
    }
    this.#rows = undefined;
  }

  /** The net change since the last call. */
  take(): NetChange<Row> {
    const change = {
      inserted: [...this.#inserted.values()].map((each) => each.row),
      deleted: [...this.#deleted.values()].map((each) => each.row),
      rows: this.rows,
    };
    this.#inserted.clear();
    this.#deleted.clear();
    return change;
  }

  #add(id: string, held: Held<Row>): void {
    const left = this.#deleted.get(id);
    const kept = left !== undefined && left.text === held.text ? left : held;
    if (kept === left) this.#deleted.delete(id);
    else this.#inserted.set(id, kept);
    this.#held.set(id, kept);
    this.#rows = undefined;
  }

  #remove(id: string): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    if (!this.#inserted.delete(id)) this.#deleted.set(id, held);
    this.#held.delete(id);
    this.#rows = undefined;
  }
}
