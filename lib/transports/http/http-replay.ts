import type { OutgoingHttpHeaders } from 'node:http';
import { asBuffer } from '../../core/util/as-buffer.js';
import type { RecordedResponse } from './response/http-response.js';
import type { ResponseSink, Replacement } from './response/response-sink.js';

/**
 * Puts a stored answer in place of whatever the pipeline makes of the replay: outer interceptors and
 * filters run as ever, but the bytes that leave are the stored ones.
 */
export class HttpReplay implements ResponseSink {
  readonly maxBufferedBytes = 0;
  /** Whether it has been put in place: an outer interceptor may ask for it more than once. */
  isStarted = false;

  constructor(
    private readonly response: RecordedResponse,
    readonly marker: string,
    readonly headersBefore: OutgoingHttpHeaders,
  ) {}

  isBypass(): boolean {
    return false;
  }

  onBypass(): void {
    // There is no outside: whoever answers, the stored answer leaves.
  }

  onSourceError(): void {
    // Nothing of it is used.
  }

  onComplete(): Promise<Replacement> {
    return Promise.resolve(this.response);
  }

  onOverflow(): Promise<Replacement> {
    return Promise.resolve(this.response);
  }

  get status(): number {
    return this.response.status;
  }

  /** What the replayed operation "returns" to outer interceptors: the body if it is JSON, else nothing. */
  get value(): unknown {
    const { headers, body } = this.response;
    if (body.length === 0 || !JSON_TYPE.test(String(headers['content-type']))) return undefined;
    try {
      return JSON.parse(asBuffer(body).toString()) as unknown;
    } catch {
      return undefined;
    }
  }
}

/** A stored answer with the header that says so (contract C73). */
export function markedReplay(response: RecordedResponse, replayHeader: string): RecordedResponse {
  return { ...response, headers: { ...response.headers, [replayHeader]: 'true' } };
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\b/i;
