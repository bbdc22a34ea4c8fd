/** How long to wait before trying again, and waiting that an AbortSignal ends. */

export interface Retry {
  /** The first wait, in milliseconds (500). */
  firstMs?: number;
  /** The longest (30,000). */
  longestMs?: number;
}

/** Doubling waits with jitter, so that a thousand clients of one gateway do not come back in one moment. */
export class Backoff {
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #random: () => number;
  #nextMs: number;

  constructor(retry: Retry = {}, random: () => number = Math.random) {
    this.#firstMs = retry.firstMs ?? 500;
    this.#longestMs = Math.max(this.#firstMs, retry.longestMs ?? 30_000);
    this.#random = random;
    this.#nextMs = this.#firstMs;
  }

  /** Between half of the step and the whole of it; never less than what the gateway asked for. */
  next(leastMs = 0): number {
    const step = this.#nextMs;
    this.#nextMs = Math.min(this.#longestMs, 2 * step);
    return Math.max(leastMs, step * (0.5 + this.#random() / 2));
  }

  reset(): void {
    this.#nextMs = this.#firstMs;
  }
}

/** Resolves after a time, or at once when the signal aborts: the caller looks at the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

/** A signal that follows another one and has a deadline, until it is lifted. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #follow = (): void => this.#controller.abort(this.#outer?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;
  passed = false;

  constructor(ms: number, outer?: AbortSignal) {
    this.#outer = outer;
    if (outer?.aborted) this.#follow();
    outer?.addEventListener("abort", this.#follow);
    this.renew(ms);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** So much time again from now. */
  renew(ms: number): void {
    this.lift();
    this.#timer = setTimeout(() => {
      this.passed = true;
      this.#controller.abort(new Error(`no answer for ${ms / 1000} s`));
    }, ms);
  }

  /** No deadline any more; the other signal still counts. */
  lift(): void {
    clearTimeout(this.#timer);
  }

  /** Nothing is watched any more. */
  end(): void {
    this.lift();
    this.#outer?.removeEventListener("abort", this.#follow);
  }

  /** Ends what listens to the signal. */
  abort(): void {
    this.#controller.abort();
    this.end();
  }
}
