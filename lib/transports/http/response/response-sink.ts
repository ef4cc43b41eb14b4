import type { OutgoingHttpHeaders } from 'node:http';
import type { RecordedResponse } from './http-response.js';

/** What is to go over the wire in place of the answer that was made; `undefined` leaves it as it is. */
export type Replacement = RecordedResponse | undefined;

/** Decides what becomes of the answer that a recorder holds. */
export interface ResponseSink {
  /** The header fields that were there before the handler ran: a replacement leaves them alone. */
  readonly headersBefore: OutgoingHttpHeaders;
  /** The field that marks replays: taken off the answer that was made, however it was set (contract C73). */
  readonly marker: string;
  /** Bytes of a body that are held; more means {@link onOverflow}. */
  readonly maxBufferedBytes: number;
  /** Whether an answer that begins now is none of the handler's and passes unheld. */
  isBypass(): boolean;
  /** Such an answer has begun. */
  onBypass(): void;
  /** The answer is complete, with all its header fields; resolves when it may leave. */
  onComplete(response: RecordedResponse): Promise<Replacement>;
  /** The answer is larger than what is held; resolves when its beginning may leave. */
  onOverflow(status: number): Promise<Replacement>;
  /** The source of the answer failed: what is there is not the whole of it. */
  onSourceError(): void;
}
