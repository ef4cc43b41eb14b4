import type { ServerResponse } from 'node:http';
import { DrainListeners, redirectsListeners } from './drain-listeners.js';
import {
  checkStatusLine,
  headersSentError,
  ResponsePatch,
  type Chunk,
  type HeaderFields,
  type ResponseRecorder,
} from './response-patch.js';
import type { ResponseSink } from './response-sink.js';
import {
  reasonOf,
  sendBody,
  sendReplacement,
  sendOrFail,
  setFields,
  setReason,
  withoutField,
} from './send-response.js';

/**
 * - `recording`: writes are buffered, nothing is sent.
 * - `held`: the response is complete and waits for the decision; further writes are ignored.
 * - `outgrowing`: it is larger than the buffer, and waits for the decision.
 * - `open`: the response has its original methods.
 * - `discarding`: another response was sent; further writes are discarded.
 */
type Phase = 'recording' | 'complete' | 'overflowing' | 'open' | 'discarding';

/** Buffers what serializers, filters, `@Res()` and pipes write to a raw response, then sends it or another one. */
export class RawRecorder implements ResponseRecorder {
  private patch: ResponsePatch;
  private phase: Phase = 'recording';
  private headWritten = false;
  private ended = false;
  private isBypass = false;
  private chunks: Uint8Array[] = [];
  private bufferedBytes = 0;
  private endCallback: (() => void) | undefined;
  /** Created for the first `write` that has to wait, or if listeners may be redirected. */
  private drainListeners: DrainListeners | undefined;

  constructor(
    private readonly response: ServerResponse,
    private readonly sink: ResponseSink,
  ) {
    if (redirectsListeners(response)) this.drainListeners = new DrainListeners(response);
    this.patch = new ResponsePatch(response, this);
  }

  /** Makes the response look ended, and ignores writes, until `uninstall`: its payload is buffered elsewhere. */
  close(): void {
    this.phase = 'complete';
    this.ended = true;
  }

  uninstall(): void {
    if (this.phase === 'open') return;
    this.phase = 'open';
    this.chunks = [];
    this.patch.remove();
    this.drainListeners?.watch(false);
  }

  /** Removes the header that marks replays from another response. */
  unmark(): void {
    const { response, sink } = this;
    if (response.hasHeader(sink.marker)) {
      this.patch.original('removeHeader').call(response, sink.marker);
    }
  }

  get isHeadersSent(): boolean {
    return this.headWritten || this.phase !== 'recording';
  }

  get isEnded(): boolean {
    return this.ended;
  }

  get needsDrain(): boolean {
    return this.drainListeners?.isAwaited ?? false;
  }

  writeHead(status: number, reason: string | undefined, fields: HeaderFields | undefined): void {
    const { response } = this;
    if (this.passes()) {
      const unmarked = fields && withoutField(fields, this.sink.marker);
      const args = [status, reason, unmarked].filter((argument) => argument !== undefined);
      this.patch.original('writeHead').apply(response, args as [number]);
      return;
    }
    if (this.ended) return;
    if (this.isHeadersSent) throw headersSentError('write');
    checkStatusLine(status, reason);
    response.statusCode = status;
    if (reason !== undefined) response.statusMessage = reason;
    setFields(response, fields);
    this.finishHead();
  }

  flushHeaders(): void {
    if (this.passes()) this.patch.original('flushHeaders').call(this.response);
    else this.finishHead();
  }

  write(
    chunk: Chunk,
    encoding: BufferEncoding | undefined,
    callback: ((error?: Error | null) => void) | undefined,
  ): boolean {
    if (this.passes()) {
      return this.patch.original('write').call(this.response, chunk, encoding ?? 'utf8', callback);
    }
    if (this.ended) return this.keepListening(callback);
    this.finishHead();
    this.buffer(chunk, encoding);
    if (this.phase === 'recording' && this.bufferedBytes > this.sink.maxBufferedBytes)
      void this.overflow();
    if (this.phase === 'overflowing') {
      // A source that never waits would keep the store's reply from being read.
      this.existingListeners.add(callback);
      return false;
    }
    if (callback !== undefined) process.nextTick(callback);
    return true;
  }

  end(
    chunk: Chunk | undefined,
    encoding: BufferEncoding | undefined,
    callback: (() => void) | undefined,
  ): void {
    if (this.passes()) {
      const args = chunk === undefined ? [callback] : [chunk, encoding ?? 'utf8', callback];
      Reflect.apply(this.patch.original('end'), this.response, args);
      if (this.isBypass) this.discard();
      return;
    }
    if (this.ended) {
      if (callback !== undefined) process.nextTick(callback);
      // The response has already finished, so it emits no more events to wait for.
      if (this.phase === 'discarding') this.emitDrainSoon();
      return;
    }
    checkStatusLine(this.response.statusCode, reasonOf(this.response));
    this.finishHead();
    this.ended = true;
    this.endCallback = callback;
    if (chunk !== undefined) this.buffer(chunk, encoding);
    if (this.phase === 'recording') void this.decide();
  }

  /** After this, no field can be set. */
  private finishHead(): void {
    if (this.headWritten) return;
    this.unmark();
    this.headWritten = true;
  }

  /** Whether this call goes directly to the response: it is open, or this is a bypass. */
  private passes(): boolean {
    if (this.phase === 'recording' && this.sink.onStart() === 'pass') {
      this.isBypass = true;
      this.unmark();
      this.uninstall();
    }
    return this.phase === 'open';
  }

  /** Discards further writes. A late handler must not fail because of them: its effect has happened. */
  private discard(): void {
    this.phase = 'discarding';
    this.ended = true;
    this.isBypass = false;
    this.patch = new ResponsePatch(this.response, this);
    this.existingListeners.watch(true);
    this.emitDrainSoon();
  }

  private get existingListeners(): DrainListeners {
    return (this.drainListeners ??= new DrainListeners(this.response));
  }

  /** Discards a write, with back-pressure: the source can reach its end, and other work runs meanwhile. */
  private keepListening(callback: (() => void) | undefined): false {
    if (!this.existingListeners.isAwaited) this.emitDrainSoon();
    this.existingListeners.add(callback);
    return false;
  }

  private emitDrainSoon(): void {
    setImmediate(() => {
      this.existingListeners.emit();
    });
  }

  private buffer(chunk: Chunk, encoding: BufferEncoding | undefined): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
    this.chunks.push(bytes);
    this.bufferedBytes += bytes.length;
  }

  private async decide(): Promise<void> {
    this.phase = 'complete';
    const { response, sink, endCallback } = this;
    const { statusCode } = response;
    const reason = reasonOf(response);
    const headers = response.getHeaders();
    const body = joined(this.chunks);
    if (isCutShort(headers['content-length'], body)) sink.onSourceError();
    const replacement = await sink.onComplete({ status: statusCode, headers, body });
    this.uninstall();
    sendOrFail(response, () => {
      if (replacement === undefined) {
        response.statusCode = statusCode;
        setReason(response, reason);
        sendBody(response, body, endCallback);
      } else {
        sendReplacement(response, replacement, sink, endCallback);
      }
    });
  }

  private async overflow(): Promise<void> {
    this.phase = 'overflowing';
    const { response, sink } = this;
    const replacement = await sink.onOverflow(response.statusCode);
    const { chunks, ended, endCallback } = this;
    this.uninstall();
    sendOrFail(response, () => {
      if (replacement === undefined) {
        let mayGoOn = true;
        for (const chunk of chunks) mayGoOn = response.write(chunk);
        if (ended) response.end(endCallback);
        // A destroyed response never drains.
        if (mayGoOn || response.destroyed) this.emitDrainSoon();
        else setImmediate(() => this.drainListeners?.callBack());
      } else {
        sendReplacement(response, replacement, sink, endCallback);
        this.discard();
      }
    });
  }
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [only, ...others] = chunks;
  return only !== undefined && others.length === 0 ? only : Buffer.concat(chunks);
}

/** Whether the body differs from its announced length: a failed source may still have called `end`. */
function isCutShort(contentLength: unknown, body: Uint8Array): boolean {
  return contentLength !== undefined && Number(contentLength) !== body.length;
}
