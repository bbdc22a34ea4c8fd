/** Server-sent events, from the pieces in which they arrive. */

import { TidewireError } from "./errors.js";

export interface SseEvent {
  name: string;
  data: string;
  /** The id that was seen last, "" if none was. */
  id: string;
}

/** One event may be as large as its row and the row before it; more is no event of ours. */
export const LONGEST_EVENT = 64 * 1024 * 1024;

/** By the rules of the HTML standard (9.2.6): \n, \r\n and \r end lines, wherever the network cuts them. */
export class SseReader {
  #rest = "";
  #afterReturn = false;
  #name = "";
  #data: string[] = [];
  #characters = 0;
  #first = true;
  id = "";

  /** The events that are whole now. */
  feed(piece: string): SseEvent[] {
    const events: SseEvent[] = [];
    let text = piece;
    if (this.#first && text !== "") {
      this.#first = false;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    if (this.#afterReturn && text !== "") {
      this.#afterReturn = false;
      if (text[0] === "\n") text = text.slice(1);
    }
    text = this.#rest + text;
    let begin = 0;
    for (;;) {
      const end = endOfLine(text, begin);
      if (end === -1) break;
      const event = this.#line(text.slice(begin, end));
      if (event !== undefined) events.push(event);
      begin = end + 1;
      if (text[end] === "\r") {
        if (begin === text.length) this.#afterReturn = true;
        else if (text[begin] === "\n") begin++;
      }
    }
    this.#rest = text.slice(begin);
    this.#bounded(this.#rest.length);
    return events;
  }

  #line(line: string): SseEvent | undefined {
    if (line === "") return this.#event();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
    else if (field === "data") {
      this.#data.push(value);
      this.#characters += value.length;
      this.#bounded(0);
    }
    return undefined;
  }

  #event(): SseEvent | undefined {
    const event = this.#data.length === 0 ? undefined : { name: this.#name === "" ? "message" : this.#name, data: this.#data.join("\n"), id: this.id };
    [this.#name, this.#data, this.#characters] = ["", [], 0];
    return event;
  }

  #bounded(more: number): void {
    if (this.#characters + more > LONGEST_EVENT) throw new TidewireError("protocol", "one event is larger than 64 MiB: ask for fewer columns");
  }
}

function endOfLine(text: string, from: number): number {
  const feed = text.indexOf("\n", from);
  const back = text.indexOf("\r", from);
  if (feed === -1 || back === -1) return Math.max(feed, back);
  return Math.min(feed, back);
}
