import { isAscii } from 'node:buffer';
import { PassThrough, pipeline, Readable } from 'node:stream';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { SymbolSlot } from '../../../core/util/symbol-slot.js';
import { holdClose, isGone } from './held-close.js';
import type { Head, RecordedResponse } from './http-response.js';
import { LiveBody } from './live-body.js';
import { isOtherLength, RawRecorder } from './raw-recorder.js';
import type { ResponseRecording, ResponseSink, Spool } from './response-sink.js';
import {
  contradictions,
  cut,
  FRAMING,
  isBodiless,
  liveFraming,
  MAX_BYTES_IN_ONE_CHUNK,
  reasonOf,
  sendServerError,
  showsCut,
} from './send-response.js';

export interface FastifyReply {
  readonly raw: ServerResponse;
  /** The instance that the route belongs to: that of the application, or inherits from it. */
  readonly server: object;
  /** Also after `hijack`. */
  readonly sent: boolean;
  statusCode: number;
  send: (payload?: unknown) => unknown;
  getHeaders(): OutgoingHttpHeaders;
  header(name: string, value: unknown): unknown;
  hasHeader(name: string): boolean;
  removeHeader(name: string): unknown;
}

type HookDone = (error: Error | null, payload?: unknown) => void;

export interface FastifyInstance {
  addHook(
    name: 'onSend',
    hook: (request: unknown, reply: FastifyReply, payload: unknown, done: HookDone) => void,
  ): unknown;
  addHook(name: 'onReady', hook: (done: () => void) => void): unknown;
  printRoutes(options: { includeHooks: true }): string;
}

interface PayloadReceiver {
  onSend(payload: unknown, done: HookDone, reply: FastifyReply): void;
}

const receivers = new SymbolSlot<PayloadReceiver>('fastify-payload-receiver');

/** Sends a stored response when Nest sends the value in its place. */
class ReplayedPayload implements PayloadReceiver {
  constructor(private readonly response: RecordedResponse) {}

  onSend(_payload: unknown, done: HookDone, reply: FastifyReply): void {
    const { status, body } = this.response;
    receivers.set(reply, undefined);
    try {
      reply.statusCode = status;
      // Of middleware or a hook, which knew nothing of this body.
      for (const name of FRAMING) removeField(reply, name);
      if (body.length === 0) done(null);
      else done(null, textOf(body, reply.getHeaders(), reply.raw) ?? asBuffer(body));
    } catch (error) {
      sendServerError(reply.raw, error);
    }
  }
}

/** On an instance of whose routes none has a `preSerialization` hook. */
const SENDS_BYTES = Symbol('nestjs-idempotency.sends-bytes');

/** Whether the reply may be sent as bytes: no `preSerialization` hook expects its value. */
export function sendsBytes({ server }: FastifyReply): boolean {
  return SENDS_BYTES in server;
}

/** Replaces the next response of the reply. */
export function replaceSent(reply: FastifyReply, response: RecordedResponse): void {
  // Before Fastify adds a type for bytes, so that the fields keep their order.
  for (const [name, value] of Object.entries(response.headers)) reply.header(name, value);
  receivers.set(reply, new ReplayedPayload(response));
}

/** Passes payloads to their recorders before other `onSend` hooks (compression). Call it before plugins are loaded. */
export function addRecordingHook(instance: FastifyInstance): void {
  instance.addHook('onSend', (_request, reply, payload, done) => {
    const receiver = receivers.get(reply);
    if (receiver === undefined) done(null, payload);
    else receiver.onSend(payload, done, reply);
  });
  // By then, all hooks have been added. Fastify lists them nowhere else.
  instance.addHook('onReady', (done) => {
    const routes = instance.printRoutes({ includeHooks: true });
    if (!routes.includes('preSerialization')) Object.assign(instance, { [SENDS_BYTES]: true });
    done();
  });
}

interface Decided {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly payload: unknown;
}

interface Live {
  readonly body: LiveBody;
  readonly head: Head;
}

/**
 * Buffers the response of a Fastify route. Payloads arrive uncompressed in its `onSend` hook. A {@link RawRecorder}
 * records what bypasses the reply: `reply.hijack()`, writes to `reply.raw`.
 */
export class FastifyRecorder implements ResponseRecording {
  private raw: RawRecorder;
  /** How often another response has followed one that was discarded. */
  private restarts = 0;
  /** The payload could not be read, and nothing of it was sent: Fastify sends an error in its place. */
  private isReplaced = false;
  /** While its body is stored, the response does not show that its client has left. */
  private releaseClose: (() => void) | undefined;
  /** What is sent while it is stored. */
  private live: Live | undefined;

  constructor(
    private readonly reply: FastifyReply,
    private readonly sink: ResponseSink,
  ) {
    this.raw = new RawRecorder(reply.raw, sink);
    receivers.set(reply, this);
  }

  get hasBegun(): boolean {
    return this.raw.hasBegun;
  }

  restart(): void {
    this.restarts += 1;
    this.raw.restart();
    receivers.set(this.reply, this);
  }

  onSend(payload: unknown, done: HookDone): void {
    const { reply, raw, sink } = this;
    if (!isSendable(payload)) {
      // Fastify rejects it after its hooks, and calls them again with the error's payload.
      done(null, payload);
      return;
    }
    receivers.set(reply, undefined);
    if (raw.isPartial) {
      // Fastify cannot write its head either, and Nest then ends what the handler has written to the raw response.
      if (payload instanceof Readable) payload.destroy();
      reply.raw.end();
      return;
    }
    if (payload instanceof Response) this.adopt(payload);
    if (reply.hasHeader(sink.marker)) reply.removeHeader(sink.marker);
    raw.unmark();
    const start = sink.onStart(reply.statusCode);
    if (start === 'ignore') {
      receivers.set(reply, this);
      return;
    }
    if (start === 'pass') {
      raw.uninstall();
      // Fastify would set the fields of a web response a second time.
      done(null, payload instanceof Response ? payload.body : payload);
      return;
    }
    const { replacement } = sink;
    if (replacement !== undefined && !isStreamed(payload)) {
      this.open(() => {
        this.send(this.inPlaceOf(replacement), done);
      });
      return;
    }
    // Looks ended until it is sent: for a response that looks unused, Fastify or a filter would send a second one.
    raw.close();
    this.decide(payload, done).then(
      (decided) => {
        if (decided === undefined) return;
        this.release(() => {
          this.send(decided, done);
        });
      },
      (error: unknown) => {
        const cause =
          error instanceof Error
            ? error
            : new Error('The source of the response failed.', { cause: error });
        this.release(() => {
          if (this.isReplaced) this.recordAgain();
          done(cause);
        });
      },
    );
  }

  /**
   * In the next tick, after Fastify has handled the handler's promise in the microtasks of this one. With a store that
   * replies synchronously, or asynchronous hooks, Fastify would otherwise find a response that looks unused.
   */
  private release(send: () => void): void {
    process.nextTick(() => {
      this.open(send);
    });
  }

  private open(send: () => void): void {
    this.raw.uninstall();
    if (this.live === undefined) this.releaseClose?.();
    try {
      send();
    } catch (error) {
      sendServerError(this.reply.raw, error);
    }
  }

  private send(decided: Decided, done: HookDone): void {
    this.apply(decided);
    done(null, this.wanted(decided.payload));
  }

  /** A stream that nobody gets is closed here: over HTTP/2, Fastify would leave it open. */
  private wanted(payload: unknown): unknown {
    if (!(payload instanceof Readable) || !isGone(this.reply.raw)) return payload;
    payload.destroy();
    return null;
  }

  private recordAgain(): void {
    this.isReplaced = false;
    this.raw = new RawRecorder(this.reply.raw, this.sink);
    receivers.set(this.reply, this);
  }

  /** @returns `undefined` if it was sent while it was stored. */
  private async decide(payload: unknown, done: HookDone): Promise<Decided | undefined> {
    const { reply, sink, restarts } = this;
    const buffering = bufferPayload(payload, (chunks) => this.beyondBuffer(chunks, done), sink);
    const buffered = buffering instanceof Promise ? await buffering : buffering;
    if (this.live !== undefined) {
      await this.endLive(this.live, buffered.kind === 'spooled');
      return undefined;
    }
    if (restarts !== this.restarts) return new Promise(() => undefined);
    const status = reply.statusCode;
    const headers = reply.getHeaders();
    if (buffered.kind === 'overflow') {
      const replacement = sink.replacementAfter(await sink.onOverflow(status));
      if (replacement === undefined) return { status, headers, payload: buffered.whole };
      buffered.whole.destroy();
      return this.inPlaceOf(replacement);
    }
    if (buffered.kind === 'spooled') return this.decideSpooled(buffered.spool, status, headers);
    if (buffered.kind === 'broken') {
      // As after a serializer that fails. Where the handler sends it, the error would count as its failure; and a client
      // that has left destroys the source.
      if (!sink.isOfHandler && !isGone(reply.raw)) {
        this.isReplaced = true;
        throw buffered.error;
      }
      sink.onSourceError();
    }
    const body = buffered.kind === 'complete' ? buffered.body : Buffer.alloc(0);
    // A source may also end too early without an error. Of what is there as a whole, Fastify corrects the length.
    const isCut =
      buffered.kind === 'complete' &&
      isStreamed(payload) &&
      isOtherLength(headers['content-length'], body.length);
    if (isCut) sink.onSourceError();
    const replacement = sink.replacementAfter(await sink.onComplete({ status, headers, body }));
    if (replacement !== undefined) return this.inPlaceOf(replacement);
    if (buffered.kind === 'broken') throw buffered.error;
    for (const name of contradictions(reply.raw, status, headers)) headers[name] = undefined;
    if (payload === undefined || payload === null) {
      // Fastify adds a length of 0.
      return { status, headers: { ...headers, 'transfer-encoding': undefined }, payload };
    }
    // Fastify adds a length to bytes, which must not be combined with a transfer coding (RFC 9112 §6.2), nor hide a cut.
    if (isCut || headers['transfer-encoding'] !== undefined || headers.trailer !== undefined) {
      return { status, headers, payload: Readable.from([asBuffer(body)]) };
    }
    // Node sends a string together with the head, in one chunk, but then encodes both alike.
    const isText = typeof payload === 'string' && isPrintable(headers, reasonOf(reply.raw));
    if (isText) return { status, headers, payload };
    return { status, headers, payload: textOf(body, headers, reply.raw) ?? asBuffer(body) };
  }

  /** @returns what stores the body while it is read, if that is to be. */
  private beyondBuffer(chunks: readonly Uint8Array[], done: HookDone): Spool | undefined {
    const { reply, sink } = this;
    const { raw } = reply;
    const spool = isGone(raw) ? undefined : sink.spool(reply.statusCode, chunks);
    if (spool === undefined) return undefined;
    this.releaseClose = holdClose(raw, () => {
      spool.fail(new Error('The response was destroyed.'));
    });
    const status = reply.statusCode;
    const headers = reply.getHeaders();
    if (!sink.holdsLast || !showsCut(raw, status, headers)) return spool;
    const { fields, bytes } = liveFraming(raw, status, headers);
    const body = new LiveBody(spool, bytes).once('error', () => {
      cut(raw);
    });
    this.live = { body, head: { status, headers } };
    this.release(() => {
      this.apply({ status, headers: { ...headers, ...fields } });
      done(null, body);
    });
    return body;
  }

  /** @param isWhole - its source has ended. */
  private async endLive({ body, head }: Live, isWhole: boolean): Promise<void> {
    const { reply, sink } = this;
    if (!isWhole || isCutShort(head.headers, body)) sink.onSourceError();
    body.end();
    await body.settled;
    const stored = await sink.onSent(head);
    this.releaseClose?.();
    if (isGone(reply.raw)) body.destroy();
    await body.finish(stored);
  }

  private async decideSpooled(
    spool: Spool,
    status: number,
    headers: OutgoingHttpHeaders,
  ): Promise<Decided> {
    const { reply, sink } = this;
    if (isCutShort(headers, spool)) sink.onSourceError();
    spool.end();
    await spool.settled;
    const answer = await sink.onSpooled({ status, headers });
    if (answer.kind === 'other') return this.inPlaceOf(answer.response);
    return ofLarge({ status, headers, body: NOTHING, large: answer.large }, reply);
  }

  /** Sets status and fields of a web response, as Fastify does after its hooks. */
  private adopt(response: Response): void {
    this.reply.statusCode = response.status;
    for (const [name, value] of response.headers) this.reply.header(name, value);
  }

  private inPlaceOf(response: RecordedResponse): Decided {
    const { status, headers, body, large } = response;
    const bytes = asBuffer(body);
    const before = { ...this.sink.headersBefore };
    for (const name of FRAMING) before[name] = undefined;
    if (large !== undefined) {
      return ofLarge({ ...response, headers: { ...before, ...headers } }, this.reply);
    }
    return {
      status,
      headers: { ...before, ...headers },
      // `undefined` would keep the payload that has to be replaced.
      payload: bytes.length === 0 ? null : bytes,
    };
  }

  /** Sets status and header fields, and removes those that were set since the decision. */
  private apply({ status, headers }: Head): void {
    const { reply } = this;
    const present = reply.getHeaders();
    reply.statusCode = status;
    for (const name of Object.keys(present)) {
      if (headers[name] === undefined) removeField(reply, name);
    }
    for (const name of Object.keys(headers)) {
      const value = headers[name];
      if (value !== undefined && present[name.toLowerCase()] !== value) {
        reply.removeHeader(name);
        reply.header(name, value);
      }
    }
  }
}

const NOTHING = new Uint8Array();

/** Whether its source has delivered another number of bytes than announced, though the store took all of them. */
function isCutShort(headers: OutgoingHttpHeaders, { bytes, isFailed }: Spool): boolean {
  return !isFailed && isOtherLength(headers['content-length'], bytes);
}

/** A body that Fastify sends while it is read. If it fails in between, the connection breaks. */
function ofLarge({ status, headers, large }: RecordedResponse, { raw }: FastifyReply): Decided {
  const fields = { ...headers };
  for (const name of FRAMING) fields[name] = undefined;
  if (large === undefined || isBodiless(status)) {
    large?.stream.destroy();
    return { status, headers: fields, payload: null };
  }
  // Fastify breaks it, too, but over HTTP/2 so that it looks whole.
  large.stream.once('error', () => {
    cut(raw);
  });
  return { status, headers: { ...fields, 'content-length': large.bytes }, payload: large.stream };
}

/** Removes a field of the handler, and one that middleware has set on Node's response. */
function removeField(reply: FastifyReply, name: string): void {
  if (reply.hasHeader(name)) reply.removeHeader(name);
  if (reply.raw.hasHeader(name)) reply.raw.removeHeader(name);
}

/** A short ASCII body as a string: of a first response and of its replay, so that later hooks get the same of both. */
function textOf(
  body: Uint8Array,
  headers: OutgoingHttpHeaders,
  response: ServerResponse,
): string | undefined {
  const isText =
    body.length > 0 &&
    body.length <= MAX_BYTES_IN_ONE_CHUNK &&
    isAscii(body) &&
    isPrintable(headers, reasonOf(response));
  return isText ? asBuffer(body).toString('latin1') : undefined;
}

/** Whether all characters of a head are ASCII, which Latin-1 and UTF-8 encode alike. */
function isPrintable(headers: OutgoingHttpHeaders, reason: string | undefined): boolean {
  for (const name in headers) if (UNPRINTABLE.test(String(headers[name]))) return false;
  return reason === undefined || !UNPRINTABLE.test(reason);
}

const UNPRINTABLE = /[^ -~]/;

type BufferedPayload =
  | { readonly kind: 'complete'; readonly body: Uint8Array }
  | { readonly kind: 'broken'; readonly error: unknown }
  | { readonly kind: 'spooled'; readonly spool: Spool }
  | { readonly kind: 'overflow'; readonly whole: Readable };

/** What stores a body that is larger than the buffer. */
type BeyondBuffer = (beginning: readonly Uint8Array[]) => Spool | undefined;

function bufferPayload(
  payload: unknown,
  beyond: BeyondBuffer,
  sink: ResponseSink,
): BufferedPayload | Promise<BufferedPayload> {
  if (payload === undefined || payload === null) return { kind: 'complete', body: Buffer.alloc(0) };
  if (typeof payload === 'string') return { kind: 'complete', body: Buffer.from(payload) };
  if (payload instanceof Uint8Array) return { kind: 'complete', body: payload };
  return bufferStream(toReadable(payload), beyond, sink);
}

async function bufferStream(
  source: Readable,
  beyond: BeyondBuffer,
  sink: ResponseSink,
): Promise<BufferedPayload> {
  const chunks: Uint8Array[] = [];
  let bufferedBytes = 0;
  let spool: SpooledStream | undefined;
  try {
    for await (const chunk of source.iterator({ destroyOnReturn: false })) {
      const bytes: unknown = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      if (!(bytes instanceof Uint8Array)) {
        throw new TypeError('A stream that is sent as a response must contain strings or bytes');
      }
      if (spool !== undefined) {
        if (await spool.takes(bytes)) continue;
        break;
      }
      chunks.push(bytes);
      bufferedBytes += bytes.length;
      if (bufferedBytes <= sink.maxBufferedBytes) continue;
      const started = beyond(chunks);
      if (started === undefined) return { kind: 'overflow', whole: rejoined(chunks, source) };
      spool = new SpooledStream(started, source);
      for (const chunk of chunks.splice(0)) await spool.takes(chunk);
    }
  } catch (error) {
    spool?.spool.fail(error);
    // Otherwise its source was destroyed because it is not wanted any more.
    if (spool?.spool.isFailed !== true || spool.spool.isGivenUp) return { kind: 'broken', error };
  }
  if (spool === undefined) return { kind: 'complete', body: Buffer.concat(chunks) };
  return { kind: 'spooled', spool: spool.spool };
}

/** A spool that a reader waits for. */
class SpooledStream {
  private goOn: () => void = noop;

  constructor(
    readonly spool: Spool,
    source: Readable,
  ) {
    const goOn = () => {
      this.goOn();
    };
    spool.onDrain(goOn);
    void spool.settled.then(() => {
      // It may have nothing to deliver for a long time.
      if (spool.isFailed) source.destroy();
      goOn();
    });
  }

  /** @returns whether more is wanted, once it is. */
  async takes(chunk: Uint8Array): Promise<boolean> {
    const { spool } = this;
    if (!spool.isFailed && !spool.write(chunk)) {
      await new Promise<void>((resolve) => {
        this.goOn = resolve;
      });
    }
    return !spool.isFailed;
  }
}

function noop(): void {
  // Nobody waits.
}

function rejoined(chunks: readonly Uint8Array[], rest: Readable): Readable {
  const whole = new PassThrough();
  for (const chunk of chunks) whole.write(chunk);
  // An error of the source destroys the copy, on which Fastify listens.
  pipeline(rest, whole, () => undefined);
  return whole;
}

function isSendable(payload: unknown): boolean {
  return !isStreamed(payload) || payload instanceof Response || isStream(payload);
}

/** Whether it is not there as a whole. */
function isStreamed(payload: unknown): payload is object {
  if (payload === undefined || payload === null || typeof payload === 'string') return false;
  return !(payload instanceof Uint8Array);
}

function isStream(payload: unknown): boolean {
  if (payload instanceof Readable || payload instanceof ReadableStream) return true;
  return typeof (payload as NodeJS.ReadableStream).pipe === 'function';
}

function toReadable(payload: unknown): Readable {
  if (payload instanceof Readable) return payload;
  if (payload instanceof Response) return toReadable(payload.body ?? Readable.from([]));
  if (payload instanceof ReadableStream) return Readable.fromWeb(payload as never);
  return new Readable().wrap(payload as NodeJS.ReadableStream);
}
