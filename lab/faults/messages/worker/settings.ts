import type { StoreSettings, WorkerOptions } from '../../worker/settings.js';
import type { POINTS } from '../../worker/mishap.js';

/** All settings of a consumer, as JSON in `SETTINGS_VARIABLE`. */
export interface ConsumerSettings {
  /** Stands in every line that the process writes: another one for every start. */
  readonly name: string;
  readonly store: StoreSettings;
  readonly options: WorkerOptions;
  readonly brokerUrl: string;
  readonly queue: string;
  readonly prefetch: number;
  readonly ledgerFile: string;
  readonly eventsFile: string;
  /** How long the handler takes until it has its effect, in milliseconds. */
  readonly effectDelayMs: number;
}

/** What the process says once it consumes, over the channel to its parent. */
export interface ConsumingMessage {
  readonly consuming: true;
}

/** A point that an attempt comes by. */
export type CrashPoint = (typeof POINTS)[number];

/** What the parent can ask of it. */
export type ConsumerCommand =
  /** To die where the next attempt comes by this point. */
  | { readonly kind: 'crash'; readonly point: CrashPoint }
  /** To close the channel that it consumes on, as an application may, and to open another one. */
  | { readonly kind: 'close channel' }
  /** To have the broker close it, by a word on a message that it never had. */
  | { readonly kind: 'break channel' };

/** The event that all messages of the laboratory are. */
export const PATTERN = 'lab.effect';

/** The tag of no message. */
export const FORGED_TAG = 2 ** 40;

/** The broker's reason for closing a channel after an acknowledgement of {@link FORGED_TAG}. */
export const FORGED_TAG_REJECTION = `406 PRECONDITION_FAILED - unknown delivery tag ${FORGED_TAG}`;
