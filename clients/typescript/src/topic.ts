/** The topics door: messages of a durable topic for a group of consumers, each until it is acked. */

import { TidewireError, Unavailable } from "./errors.js";
import { Gateway, type GatewayOptions } from "./gateway.js";
import { tell } from "./status.js";
import { Backoff, pause } from "./waiting.js";

export type Start = "Latest" | "Earliest" | { Offset: number };

export interface TopicOptions extends GatewayOptions {
  /** Consumers of one group share the messages. Without a group nothing is kept by the gateway, and nothing can be acked. */
  group?: string;
}

export interface ConsumeOptions {
  /** Where a group without a committed offset begins, and a reader without a group ("Latest"). */
  start?: Start;
  partition?: number;
  /** The most messages of one answer (100; the gateway allows 1,000). */
  limit?: number;
  /** How long the gateway holds a request while there is nothing (30). */
  timeoutSeconds?: number;
  signal?: AbortSignal;
  onStatus?: (status: TopicStatus) => void;
}

export type TopicStatus =
  | { state: "consuming" }
  | { state: "waiting"; reason: string; retryInMs: number }
  /** Messages before `offset` were removed by the topic's retention before this reader came to them. */
  | { state: "trimmed"; offset: number };

export interface TopicMessage {
  topic_id: string;
  partition_id: number;
  offset: number;
  message_id: string | null;
  source_table: string;
  op: "Insert" | "Update" | "Delete";
  ts: number;
  payload_mode: "Key" | "Full" | "Diff";
  user?: string;
  /** The payload as bytes, and read as JSON. */
  payload: Uint8Array;
  value: unknown;
  /** This message, and those before it in the same answer, are done with. */
  ack: () => Promise<void>;
  /** It could not be done: after the gateway's number of times it goes to `<topic>.dead`. */
  nack: (reason: string) => Promise<void>;
}

interface Answer {
  messages: Array<Record<string, unknown> & { offset: number; partition_id: number; payload: string }>;
  next_offset: number;
  has_more: boolean;
  claim_id?: string | null;
  trimmed?: boolean;
}

const PATH = "/api/topics/";
const PATIENCE_MS = 30_000;

export class Topic {
  readonly #gateway: Gateway;
  readonly #name: string;
  readonly #options: TopicOptions;

  constructor(url: string | URL, name: string, options: TopicOptions = {}) {
    this.#gateway = new Gateway(url, options);
    this.#name = name;
    this.#options = options;
  }

  /** Without end; the next answer is asked for when the messages of the last one were taken. */
  async *consume(options: ConsumeOptions = {}): AsyncGenerator<TopicMessage, void, undefined> {
    const signal = both(this.#options.signal, options.signal);
    const backoff = new Backoff(this.#gateway.retry);
    let start: Start = options.start ?? "Latest";
    while (!signal.aborted) {
      let answer: Answer;
      try {
        tell(options.onStatus, { state: "consuming" });
        answer = await this.#consumed(start, options, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Unavailable)) throw error;
        const retryInMs = Math.round(backoff.next(error.retryAfterMs));
        tell(options.onStatus, { state: "waiting", reason: error.message, retryInMs });
        await pause(retryInMs, signal);
        continue;
      }
      backoff.reset();
      if (answer.trimmed === true) tell(options.onStatus, { state: "trimmed", offset: answer.messages[0]?.offset ?? answer.next_offset });
      // What was not acked comes again to the group by its claim, so the group's own offset says where to go on.
      if (this.#options.group === undefined || answer.messages.length === 0) start = { Offset: answer.next_offset };
      for (const message of answer.messages) {
        if (signal.aborted) return;
        yield this.#message(message, answer.claim_id ?? undefined);
      }
    }
  }

  /** Everything up to this offset is done with: for a group with one consumer. */
  async ack(uptoOffset: number, partition = 0, claimId?: string): Promise<void> {
    const body = { ...this.#grouped(), partition_id: partition, upto_offset: uptoOffset, ...(claimId === undefined ? {} : { claim_id: claimId }) };
    await this.#post("ack", body);
  }

  async nack(offset: number, reason: string, partition = 0): Promise<void> {
    await this.#post("nack", { ...this.#grouped(), partition_id: partition, offset, reason });
  }

  async #post(path: string, body: object): Promise<void> {
    await this.#gateway.patiently(PATH + path, { method: "POST", body, signal: this.#options.signal }, PATIENCE_MS);
  }

  async #consumed(start: Start, options: ConsumeOptions, signal: AbortSignal): Promise<Answer> {
    const timeoutSeconds = options.timeoutSeconds ?? 30;
    const body = {
      topic: this.#name,
      ...(this.#options.group === undefined ? {} : { group_id: this.#options.group }),
      start,
      limit: options.limit ?? 100,
      partition_id: options.partition ?? 0,
      timeout_seconds: timeoutSeconds,
    };
    // The gateway answers before the time that was asked for; more than that is no answer.
    const timeoutMs = timeoutSeconds * 1000 + PATIENCE_MS;
    const answer = JSON.parse(await this.#gateway.text(`${PATH}consume`, { method: "POST", body, signal, timeoutMs })) as Answer;
    if (!Array.isArray(answer.messages)) throw new TidewireError("protocol", "the answer has no messages: see that the address is a gateway's HTTP port");
    return answer;
  }

  #message(told: Answer["messages"][number], claimId: string | undefined): TopicMessage {
    const payload = Uint8Array.from(atob(told.payload), (sign) => sign.charCodeAt(0));
    return {
      ...(told as unknown as TopicMessage),
      payload,
      value: JSON.parse(new TextDecoder().decode(payload)) as unknown,
      ack: () => this.ack(told.offset, told.partition_id, claimId),
      nack: (reason) => this.nack(told.offset, reason, told.partition_id),
    };
  }

  #grouped(): { topic: string; group_id: string } {
    if (this.#options.group === undefined) throw new TidewireError("invalid_request", "without a group there is nothing to ack: pass the option group");
    return { topic: this.#name, group_id: this.#options.group };
  }
}

/** Aborted when one of them is. */
function both(...signals: Array<AbortSignal | undefined>): AbortSignal {
  const given = signals.filter((each) => each !== undefined);
  if (given.length === 1) return given[0] as AbortSignal;
  const joined = new AbortController();
  for (const each of given) {
    if (each.aborted) joined.abort(each.reason);
    each.addEventListener("abort", () => joined.abort(each.reason), { once: true });
  }
  return joined.signal;
}

/** A durable topic, by name, id or alias. */
export function topic(url: string | URL, name: string, options: TopicOptions = {}): Topic {
  return new Topic(url, name, options);
}
