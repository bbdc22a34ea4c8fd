/** What ends an iteration or a call: a code for programs, and a sentence with the next step for people. */
export class TidewireError extends Error {
  /** The gateway's code (`not_found`, `forbidden`, …), or one of ours (`no_longer_allowed`, `unreachable`, `protocol`). */
  readonly code: string;
  /** The HTTP status, where there was an answer. */
  readonly status: number | undefined;

  constructor(code: string, message: string, options: { status?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "TidewireError";
    this.code = code;
    this.status = options.status;
  }
}

/** A CDC subscription cannot go on from where it stands: take the table anew, ack `offset`, and iterate again. */
export class ResnapshotRequired extends TidewireError {
  readonly offset: number;
  readonly reason: string;

  constructor(offset: number, reason: string) {
    super("resnapshot_required", `the changes in between are gone (${reason}): take the table anew, ack ${offset}, and iterate again`);
    this.name = "ResnapshotRequired";
    this.offset = offset;
    this.reason = reason;
  }
}

/** Something that may pass by itself: the caller waits and tries again. */
export class Unavailable extends Error {
  /** How long the gateway asked to wait, if it did. */
  readonly retryAfterMs: number;
  /** Whether asking in another way may tell more. */
  readonly unexplained: boolean;

  constructor(message: string, options: { retryAfterMs?: number; unexplained?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs ?? 0;
    this.unexplained = options.unexplained ?? false;
  }
}

/** The error of a loop that was given up. */
export function givenUp(what: string, last: Unavailable): TidewireError {
  return new TidewireError("unreachable", `${what} was not answered (${last.message}): see that the gateway runs, then try again`, { cause: last });
}
