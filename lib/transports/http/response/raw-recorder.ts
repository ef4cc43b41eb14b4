import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { DrainListeners } from './drain-listeners.js';
import {
  headersSentError,
  ResponsePatch,
  type Chunk,
  type HeaderFields,
  type RecordedPhase,
  type ResponseRecorder,
} from './response-patch.js';
import { holdClose, isGone } from './held-close.js';
import { LiveBody } from './live-body.js';
import type { ResponseRecording, ResponseSink, Spool } from './response-sink.js';
import {
  checkStatusLine,
  contradictions,
  deliver,
  liveFraming,
  reasonOf,
  sendBody,
  sendLarge,
  sendReplacement,
  sendServerError,
  setFields,
  setReason,
  showsCut,
  withoutField,
} from './send-response.js';

type EndCallback = (() => void) | undefined;

interface Recording {
  readonly phase: 'recording';
  readonly chunks: Uint8Array[];
  bufferedBytes: number;
}

/** A response that is sent while it is stored. */
interface Live {
  readonly body: LiveBody;
  /** Before middleware changed them to send the response. */
  readonly headers: OutgoingHttpHeaders;
}

/**
 * - `recording`: writes are buffered, nothing is sent.
 * - `overflowing`: the response is larger than the buffer, and waits for the decision; writes are still buffered.
 * - `spooling`: it is larger than the buffer, and stored before anything of it is sent, or all of it; writes go to the spool.
 * - `complete`: it has ended and waits for the decision; further writes are ignored.
 * - `open`: it has its original methods.
 * - `discarding`: another response was sent; further writes are discarded.
 */
type RecorderState =
  | Recording
  | { readonly phase: 'overflowing'; readonly chunks: Uint8Array[] }
  | { readonly phase: 'spooling'; readonly spool: Spool; readonly live?: Live | undefined }
  | { readonly phase: 'complete'; readonly endCallback: EndCallback }
  | { readonly phase: 'open' | 'discarding' };

const CLOSED: Extract<RecorderState, { phase: 'complete' }> = {
  phase: 'complete',
  endCallback: undefined,
};
const OPEN: RecorderState = { phase: 'open' };

/** Buffers what serializers, filters, `@Res()` and pipes write to a raw response, then sends it or another one. */
export class RawRecorder implements ResponseRecorder, ResponseRecording {
  private patch: ResponsePatch;
  private state: RecorderState = recording();
  /** Created for the first `write` that has to wait, or if listeners may be redirected. */
  private drainListeners: DrainListeners | undefined;
  /** In a transaction: the `finish` listeners of other code. */
  private readonly finishListeners: readonly unknown[];
  /** While its body is stored, the response does not show that its client has left. */
  private releaseClose: (() => void) | undefined;

  constructor(
    private readonly response: ServerResponse,
    private readonly sink: ResponseSink,
  ) {
    // Middleware may redirect the listeners of the response.
    if (Object.hasOwn(response, 'on')) this.drainListeners = new DrainListeners(response);
    this.finishListeners = sink.isAwaitingHandler ? response.rawListeners('finish') : NONE;
    this.patch = new ResponsePatch(response, this, !sink.isBypassable);
  }

  /** Makes the response look ended, and ignores writes, until `uninstall`: its payload is buffered elsewhere. */
  close(): void {
    this.become(CLOSED, 'ended');
    if (this.sink.isAwaitingHandler) this.finishSoon();
  }

  restart(): void {
    const { phase } = this.state;
    if (phase !== 'open' && phase !== 'discarding') this.become(recording(), 'head');
  }

  uninstall(): void {
    if (this.state.phase === 'open') return;
    this.state = OPEN;
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

  get hasBegun(): boolean {
    return this.state.phase !== 'recording' || this.hasHead;
  }

  /** Whether its beginning is held: another head would be one too many. */
  get isPartial(): boolean {
    return this.state.phase === 'recording' && this.hasHead;
  }

  get needsDrain(): boolean {
    return this.drainListeners?.isAwaited ?? false;
  }

  writeHead(status: number, reason: string | undefined, fields: HeaderFields | undefined): void {
    const { response } = this;
    const state = this.stateForCall(status);
    if (state.phase === 'open') {
      const unmarked = fields && withoutField(fields, this.sink.marker);
      const args = [status, reason, unmarked].filter((argument) => argument !== undefined);
      this.patch.original('writeHead').apply(response, args as [number]);
      return;
    }
    if (state.phase === 'complete' || state.phase === 'discarding') return;
    if (state.phase !== 'recording' || this.hasHead) throw headersSentError('write');
    checkStatusLine(status, reason);
    response.statusCode = status;
    if (reason !== undefined) response.statusMessage = reason;
    setFields(response, fields);
    this.finishHead();
  }

  flushHeaders(): void {
    const state = this.stateForCall();
    if (state.phase === 'open') this.patch.original('flushHeaders').call(this.response);
    else if (state.phase === 'recording') this.finishHead();
  }

  write(
    chunk: Chunk,
    encoding: BufferEncoding | undefined,
    callback: ((error?: Error | null) => void) | undefined,
  ): boolean {
    const state = this.stateForCall();
    switch (state.phase) {
      case 'recording':
        this.finishHead();
        state.bufferedBytes += buffer(state.chunks, chunk, encoding);
        if (state.bufferedBytes <= this.sink.maxBufferedBytes) {
          if (callback !== undefined) process.nextTick(callback);
          return true;
        }
        if (this.startSpool(state.chunks)) {
          if (callback !== undefined) process.nextTick(callback);
          return !this.needsDrain;
        }
        this.become({ phase: 'overflowing', chunks: state.chunks }, 'body');
        void this.overflow(state.chunks);
        break;
      case 'spooling':
        if (state.spool.write(bytesOf(chunk, encoding))) {
          if (callback !== undefined) process.nextTick(callback);
          return true;
        }
        break;
      case 'overflowing':
        buffer(state.chunks, chunk, encoding);
        break;
      case 'complete':
      case 'discarding':
        return this.keepListening(callback);
      case 'open':
        return this.patch
          .original('write')
          .call(this.response, chunk, encoding ?? 'utf8', callback);
    }
    // A source that never waits would keep the store's reply from being read.
    this.existingListeners.add(callback);
    return false;
  }

  end(chunk: Chunk | undefined, encoding: BufferEncoding | undefined, callback: EndCallback): void {
    const state = this.stateForCall();
    switch (state.phase) {
      case 'recording':
      case 'overflowing': {
        const reason = reasonOf(this.response);
        checkStatusLine(this.response.statusCode, reason);
        if (state.phase === 'recording') this.finishHead();
        if (chunk !== undefined) buffer(state.chunks, chunk, encoding);
        this.become({ phase: 'complete', endCallback: callback }, 'ended');
        if (state.phase === 'overflowing') return;
        if (this.sink.isAwaitingHandler) {
          this.finishSoon(callback);
          void this.decide(state.chunks, reason, undefined);
        } else {
          void this.decide(state.chunks, reason, callback);
        }
        return;
      }
      case 'spooling': {
        const { spool, live } = state;
        if (chunk !== undefined) spool.write(bytesOf(chunk, encoding));
        this.become({ phase: 'complete', endCallback: callback }, 'ended');
        const headers = live?.headers ?? this.response.getHeaders();
        if (isOtherLength(headers['content-length'], spool.bytes)) this.sink.onSourceError();
        spool.end();
        void this.decideSpooled(spool, live, callback);
        return;
      }
      case 'complete':
      case 'discarding':
        if (callback !== undefined) process.nextTick(callback);
        // The response has already finished, so it emits no more events to wait for.
        if (state.phase === 'discarding') this.emitDrainSoon();
        return;
      case 'open': {
        const args = chunk === undefined ? [callback] : [chunk, encoding ?? 'utf8', callback];
        Reflect.apply(this.patch.original('end'), this.response, args);
        this.discard();
      }
    }
  }

  /** After this, no field can be set. */
  private finishHead(): void {
    if (this.hasHead) return;
    this.unmark();
    this.patch.phase = 'body';
  }

  private get hasHead(): boolean {
    return this.patch.phase !== 'head';
  }

  private become(state: RecorderState, phase: RecordedPhase): void {
    this.state = state;
    this.patch.phase = phase;
  }

  /** The state in which a call finds the recorder: `open` if this is a bypass, which goes directly to the response. */
  private stateForCall(status = this.response.statusCode): RecorderState {
    const { state } = this;
    if (state.phase !== 'recording') return state;
    switch (this.sink.onStart(status)) {
      case 'hold':
        return state;
      case 'ignore':
        return CLOSED;
      case 'pass':
        this.unmark();
        this.uninstall();
        // What the handler had begun before an interceptor stopped waiting for it.
        for (const chunk of state.chunks) this.response.write(chunk);
        return OPEN;
    }
  }

  /** Ends the handler's wait for its own response, which waits for the handler. */
  private finishSoon(callback?: EndCallback): void {
    const { response, finishListeners } = this;
    process.nextTick(() => {
      callback?.();
      for (const listener of response.rawListeners('finish') as (() => void)[]) {
        if (finishListeners.includes(listener)) continue;
        response.removeListener('finish', listener);
        listener.call(response);
      }
    });
  }

  /** Discards further writes. A late handler must not fail because of them: its effect has happened. */
  private discard(): void {
    this.patch = new ResponsePatch(this.response, this, !this.sink.isBypassable);
    this.become({ phase: 'discarding' }, 'ended');
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

  private async decide(
    chunks: readonly Uint8Array[],
    reason: string | undefined,
    callback: EndCallback,
  ): Promise<void> {
    const { response, sink } = this;
    const { statusCode } = response;
    const headers = response.getHeaders();
    const body = joined(chunks);
    if (isOtherLength(headers['content-length'], body.length)) sink.onSourceError();
    const replacement = sink.replacementAfter(
      await sink.onComplete({ status: statusCode, headers, body }),
    );
    this.uninstall();
    try {
      if (replacement === undefined) {
        for (const name of contradictions(response, statusCode, headers)) {
          if (headers[name] !== undefined) response.removeHeader(name);
        }
        response.statusCode = statusCode;
        setReason(response, reason);
        sendBody(response, body, callback);
      } else {
        sendReplacement(response, replacement, sink, callback);
      }
    } catch (error) {
      sendServerError(response, error);
    }
  }

  /** @returns whether the body is stored while it is written. */
  private startSpool(chunks: readonly Uint8Array[]): boolean {
    const { response, sink, existingListeners } = this;
    const stored = isGone(response) ? undefined : sink.spool(response.statusCode, chunks);
    if (stored === undefined) return false;
    const release = holdClose(response, () => {
      sink.onSourceError();
    });
    this.releaseClose = release;
    this.become({ phase: 'spooling', spool: stored }, 'body');
    const live = sink.holdsLast ? this.startLive(stored) : undefined;
    const spool = live?.body ?? stored;
    this.become({ phase: 'spooling', spool, live }, 'body');
    spool.onDrain(() => {
      existingListeners.emit();
    });
    let mayGoOn = true;
    for (const chunk of chunks) mayGoOn = spool.write(chunk);
    if (!mayGoOn) existingListeners.add(undefined);
    void spool.settled.then(() => {
      // What its handler does after the source has failed is awaited; it may end the response.
      if (this.state.phase !== 'spooling') return;
      if (spool.isGivenUp) release();
      else void this.decideSpooled(spool, live, undefined);
    });
    return true;
  }

  /** Sends the head, and what follows of the body. @returns `undefined` if the response is stored first. */
  private startLive(spool: Spool): Live | undefined {
    const { response } = this;
    const { statusCode } = response;
    const headers = { ...response.getHeaders() };
    if (!showsCut(response, statusCode, headers)) return undefined;
    const { fields, bytes } = liveFraming(response, statusCode, headers);
    try {
      this.patch.bypassed(() => {
        for (const [name, value] of Object.entries(fields)) {
          if (value !== undefined) response.setHeader(name, value);
          else if (response.hasHeader(name)) response.removeHeader(name);
        }
        response.flushHeaders();
      });
    } catch {
      // It throws once more, and is reported, when it is sent as a whole.
      return undefined;
    }
    const body = new LiveBody(spool, bytes);
    deliver(response, body, (resume) => {
      this.existingListeners.onOwn(resume);
    });
    return { body, headers };
  }

  /** Once its body is stored, or will not be, though its handler may still write. */
  private async decideSpooled(
    spool: Spool,
    live: Live | undefined,
    callback: EndCallback,
  ): Promise<void> {
    const { response, sink } = this;
    const { statusCode: status } = response;
    const hasEnded = this.state.phase === 'complete';
    const reason = reasonOf(response);
    const headers = live?.headers ?? response.getHeaders();
    if (!hasEnded) this.become(CLOSED, 'ended');
    await spool.settled;
    if (live !== undefined) {
      const stored = await sink.onSent({ status, headers });
      this.uninstall();
      this.releaseClose?.();
      if (callback !== undefined) response.once('finish', callback);
      void live.body.finish(stored);
      if (!hasEnded) this.discard();
      return;
    }
    const answer = await sink.onSpooled({ status, headers });
    this.uninstall();
    try {
      if (answer.kind === 'other') {
        sendReplacement(response, answer.response, sink, callback);
      } else {
        response.statusCode = status;
        setReason(response, reason);
        sendLarge(response, answer.large, callback);
      }
      if (!hasEnded) this.discard();
    } catch (error) {
      sendServerError(response, error);
    } finally {
      this.releaseClose?.();
    }
  }

  private async overflow(chunks: readonly Uint8Array[]): Promise<void> {
    const { response, sink } = this;
    const replacement = sink.replacementAfter(await sink.onOverflow(response.statusCode));
    const { state } = this;
    this.uninstall();
    try {
      const endCallback = state.phase === 'complete' ? state.endCallback : undefined;
      if (replacement === undefined) {
        let mayGoOn = true;
        // Already open: Fastify has sent another response.
        if (state.phase !== 'open') {
          for (const chunk of chunks) {
            // Below an adapter the socket returns nothing, and never drains.
            const returned: unknown = response.write(chunk);
            mayGoOn = returned !== false;
          }
        }
        if (state.phase === 'complete') response.end(endCallback);
        // A destroyed response never drains.
        if (mayGoOn || isGone(response)) this.emitDrainSoon();
        else setImmediate(() => this.drainListeners?.callBack());
      } else {
        sendReplacement(response, replacement, sink, endCallback);
        this.discard();
      }
    } catch (error) {
      sendServerError(response, error);
    }
  }
}

const NONE: readonly unknown[] = [];

function recording(): Recording {
  return { phase: 'recording', chunks: [], bufferedBytes: 0 };
}

/** @returns the number of bytes. */
function buffer(chunks: Uint8Array[], chunk: Chunk, encoding: BufferEncoding | undefined): number {
  const bytes = bytesOf(chunk, encoding);
  chunks.push(bytes);
  return bytes.length;
}

function bytesOf(chunk: Chunk, encoding: BufferEncoding | undefined): Uint8Array {
  return typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks;
  return only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks);
}

/** Whether a body differs from its announced length: a failed source may still have called `end`. */
export function isOtherLength(contentLength: unknown, bytes: number): boolean {
  return contentLength !== undefined && Number(contentLength) !== bytes;
}
