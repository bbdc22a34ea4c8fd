/** Live results, row changes and durable topics of a Tidewire gateway. */

export { ResnapshotRequired, TidewireError } from "./errors.js";
export type { GatewayOptions, Token } from "./gateway.js";
export type { Retry } from "./waiting.js";
export { live, LiveQuery, type Change, type LiveOptions } from "./live.js";
export type { Gaps } from "./live-state.js";
export type { LiveStatus } from "./live-status.js";
export { cdc, CdcSubscription, type Backpressure, type CdcEvent, type CdcOptions, type CdcStatus, type Subject, type Wishes } from "./cdc.js";
export { topic, Topic, type ConsumeOptions, type Start, type TopicMessage, type TopicOptions, type TopicStatus } from "./topic.js";
