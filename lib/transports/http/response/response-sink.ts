import type { OutgoingHttpHeaders } from 'node:http';
import type { Settlement } from '../../../core/operation/attempt.js';
import type { LargeBody } from '../../../core/record/record.js';
import type { Head, RecordedResponse } from './http-response.js';

/** What to send in place of the recorded response; `undefined` sends that one. */
export type Replacement = RecordedResponse | undefined;

/** What a held response waits for. */
export type Settling = Promise<Settlement | undefined> | undefined;

/** A body that is stored while it is written, before anything of it is sent. */
export interface Spool {
  /** How many were written. */
  readonly bytes: number;
  /** Resolves when it is stored as a whole, or failed. */
  readonly settled: Promise<void>;
  readonly isFailed: boolean;
  /** Whether it was {@link fail} that ended it. */
  readonly isGivenUp: boolean;
  onDrain(listener: () => void): void;
  /** @returns whether more may follow at once. */
  write(chunk: Uint8Array): boolean;
  end(): void;
  fail(error: unknown): void;
}

/** What is sent in place of a response whose body was stored first: its own body is read back. */
export type SpooledResponse =
  | { readonly kind: 'own'; readonly large: LargeBody }
  | { readonly kind: 'other'; readonly response: RecordedResponse };

/** A body that is stored, and to which its record points. */
export interface StoredBody {
  /** Reads it back. @returns why not, if it cannot be read. */
  open(): Promise<LargeBody | string>;
}

/** Decides what happens with a recorded response. */
export interface ResponseSink {
  /** The header fields from before the handler ran. A replacement keeps them. */
  readonly headersBefore: OutgoingHttpHeaders;
  /** The handler sends the response itself. */
  readonly isOfHandler: boolean;
  /** Other code may give the response another prototype, and so bypass the recorder. */
  readonly isBypassable: boolean;
  /** The field that marks replays, removed from every recorded response (contract C73). */
  readonly marker: string;
  /** Maximum bytes of a buffered body at this time; beyond it, the recorder calls {@link onOverflow}. */
  readonly maxBufferedBytes: number;
  /** The whole response waits for the handler's end, so that the handler must not wait for the response's. */
  readonly isAwaitingHandler: boolean;
  /**
   * The response starts, or a held one continues. `pass`: it is not the handler's, and sent unbuffered. `ignore`: it is
   * dropped, because another one follows.
   */
  onStart(status: number): 'hold' | 'pass' | 'ignore';
  /** What is sent in place of any response, where that is known before there is one. */
  readonly replacement?: RecordedResponse;
  /** The response is complete, with all header fields. Resolves when it may be sent. */
  onComplete(response: RecordedResponse): Settling;
  /**
   * The response is larger than the buffer: starts to store its body.
   * @param beginning - of the body, which the recorder writes as well.
   * @returns `undefined` if it is not to be stored; then {@link onOverflow} follows.
   */
  spool(status: number, beginning: readonly Uint8Array[]): Spool | undefined;
  /** Whether a client gets such a body while it is stored, if it can see that a response is not whole. */
  readonly holdsLast: boolean;
  /** The response is complete, with its body in the spool; or the spool has failed. */
  onSpooled(head: Head): Promise<SpooledResponse>;
  /** The same for a response that has begun to be sent. @returns its body if that is stored, and what callers get. */
  onSent(head: Head): Promise<StoredBody | undefined>;
  /** The response is larger than the buffer. Resolves when its beginning may be sent. */
  onOverflow(status: number): Settling;
  /** What is sent once the response is settled so. */
  replacementAfter(settlement: Settlement | undefined): Replacement;
  /** The source of the response failed, so the body is incomplete. */
  onSourceError(): void;
}

/** The response of a sink as it is recorded. */
export interface ResponseRecording {
  /** Whether part of it has been written. */
  readonly hasBegun: boolean;
  /** Drops what was recorded: of the response, nothing has been sent, and another one follows. */
  restart(): void;
}
