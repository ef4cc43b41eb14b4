import type { OutgoingHttpHeaders } from 'node:http';
import type { Reply } from '../../core/engine/run-operation.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { REJECTIONS, type RejectionCode } from '../../core/errors/rejections.js';
import type { Outcome } from '../../core/record/record.js';
import type { HttpRoute } from './http-route.js';
import { decodeResponse, type RecordedResponse } from './response/http-response.js';
import type { ResponseSink, SpooledResponse } from './response/response-sink.js';

/** Sends the stored response. Outer interceptors and filters run as usual, but cannot change its bytes. */
export class HttpReplay implements ResponseSink {
  readonly isOfHandler = false;
  readonly isBypassable = true;
  readonly isAwaitingHandler = false;
  readonly maxBufferedBytes = 0;
  readonly holdsLast = false;

  constructor(
    readonly replacement: RecordedResponse,
    readonly marker: string,
    readonly headersBefore: OutgoingHttpHeaders,
  ) {}

  onStart(): 'hold' {
    // The stored response replaces every other one.
    return 'hold';
  }

  onSourceError(): void {
    // The source's bytes are not used.
  }

  onComplete(): undefined {
    // It waits for nothing.
  }

  spool(): undefined {
    // What it replaces is not stored.
  }

  onSpooled(): Promise<SpooledResponse> {
    return Promise.resolve({ kind: 'other', response: this.replacement });
  }

  onSent(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  onOverflow(): undefined {
    // Likewise.
  }

  replacementAfter(): RecordedResponse {
    return this.replacement;
  }
}

/** What the replayed operation emits to outer interceptors: the body if it is JSON, otherwise `undefined`. */
export function valueOf({ headers, body }: RecordedResponse): unknown {
  if (body.length === 0 || !JSON_TYPE.test(String(headers['content-type']))) return undefined;
  try {
    return JSON.parse(asBuffer(body).toString()) as unknown;
  } catch {
    return undefined;
  }
}

/** The stored response with the header that marks it as a replay (contract C73), or the rejection in its place. */
export function replayOf(reply: Reply, { options }: HttpRoute): RecordedResponse | RejectionCode {
  if (reply.kind === 'rejected') return reply.code;
  const response = decodeResponse(reply.outcome);
  if (response === undefined) return 'idempotency_response_not_kept';
  return { ...response, headers: { ...response.headers, [options.http.replayHeader]: 'true' } };
}

/** The status of what {@link replayOf} gives. */
export function replayStatus(outcome: Outcome): number {
  return decodeResponse(outcome)?.status ?? REJECTIONS.idempotency_response_not_kept.status;
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\b/i;
