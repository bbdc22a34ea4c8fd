/** The state of a live query, for people who look at it. */

import { tell } from "./status.js";

export type LiveStatus =
  | { state: "connecting" }
  /** The rows are the gateway's, and stay so. */
  | { state: "live" }
  /** The rows may be old: a result is being fetched. */
  | { state: "refetching"; reason: string }
  /** The rows may be old: no connection; the next attempt is in `retryInMs`. */
  | { state: "waiting"; reason: string; retryInMs: number }
  /** The loop takes changes more slowly than they come; several became one, and none is lost. */
  | { state: "behind" }
  | { state: "ended" };

export class Status {
  readonly #listener: ((status: LiveStatus) => void) | undefined;
  now: LiveStatus = { state: "connecting" };

  constructor(listener: ((status: LiveStatus) => void) | undefined) {
    this.#listener = listener;
  }

  tell(status: LiveStatus): void {
    if (this.now.state === "ended") return;
    this.now = status;
    tell(this.#listener, status);
  }

  caughtUp(): void {
    if (this.now.state === "behind") this.tell({ state: "live" });
  }
}
