/** Telling a listener without letting its faults into the connection. */

export function tell<Status>(listener: ((status: Status) => void) | undefined, status: Status): void {
  try {
    listener?.(status);
  } catch (error) {
    // Told as a page's own faults are.
    if (typeof reportError === "function") reportError(error);
    else console.error(error);
  }
}
