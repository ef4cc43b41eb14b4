import { PassThrough, pipeline, Readable } from 'node:stream';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { AnswerSink } from './answer-sink.js';
import type { HttpAnswer } from './http-answer.js';
import { RawRecorder } from './raw-recorder.js';

/** What is needed of Fastify's reply. */
export interface FastifyReply {
  readonly raw: ServerResponse;
  statusCode: number;
  getHeaders(): OutgoingHttpHeaders;
  header(name: string, value: unknown): unknown;
  removeHeader(name: string): unknown;
}

/** What is needed of a Fastify instance. */
export interface FastifyInstance {
  addHook(
    name: 'onSend',
    hook: (
      request: unknown,
      reply: FastifyReply,
      payload: unknown,
      done: (error: Error | null, payload?: unknown) => void,
    ) => void,
  ): unknown;
}

const RECORDER = Symbol('nestjs-idempotency.fastify-recorder');

type RecordedReply = FastifyReply & { [RECORDER]?: FastifyRecorder | undefined };

/**
 * Lets recorders see every payload of this instance before any other `onSend` hook does, compression
 * above all. It has to be the first hook: call it before plugins are loaded.
 */
export function addRecordingHook(instance: FastifyInstance): void {
  instance.addHook('onSend', (_request, reply: RecordedReply, payload, done) => {
    const recorder = reply[RECORDER];
    if (recorder === undefined) {
      done(null, payload);
      return;
    }
    recorder.onSend(payload).then(
      (decided) => {
        done(null, decided);
      },
      (error: unknown) => {
        done(error instanceof Error ? error : new Error('The answer failed.', { cause: error }));
      },
    );
  });
}

/**
 * Holds the answer of a Fastify route. Payloads pass its `onSend` hook, uncompressed; what bypasses the
 * reply (a hijacked one, writes to `reply.raw`) is seen by a {@link RawRecorder} beneath.
 */
export class FastifyRecorder {
  private readonly raw: RawRecorder;

  constructor(
    private readonly reply: RecordedReply,
    private readonly sink: AnswerSink,
  ) {
    this.raw = new RawRecorder(reply.raw, sink);
    reply[RECORDER] = this;
  }

  /** @returns the payload that is to be sent. */
  async onSend(payload: unknown): Promise<unknown> {
    const { reply, sink } = this;
    reply[RECORDER] = undefined;
    this.raw.uninstall();
    if (sink.isFromOutside()) {
      sink.passFromOutside();
      return payload;
    }
    if (payload instanceof Response) this.adopt(payload);
    const held = await hold(payload, sink.maxHeldBytes);
    if (held.kind === 'outgrown') {
      const replacement = await sink.outgrown(reply.statusCode);
      if (replacement === undefined) return held.whole;
      held.whole.destroy();
      return this.replace(replacement);
    }
    if (held.kind === 'broken') sink.answerBroke();
    const body = held.kind === 'complete' ? held.body : Buffer.alloc(0);
    const { statusCode: status } = reply;
    const replacement = await sink.answered({ status, headers: reply.getHeaders(), body });
    if (replacement !== undefined) return this.replace(replacement);
    if (held.kind === 'broken') throw held.error;
    return isBytes(payload) || payload === undefined || payload === null ? payload : body;
  }

  /** What Fastify does with a web response after its hooks. */
  private adopt(response: Response): void {
    this.reply.statusCode = response.status;
    for (const [name, value] of response.headers) this.reply.header(name, value);
  }

  private replace({ status, headers, body }: HttpAnswer): unknown {
    const { reply, sink } = this;
    for (const name of Object.keys(reply.getHeaders())) {
      const before = sink.headersBefore[name];
      reply.removeHeader(name);
      if (before !== undefined) reply.header(name, before);
    }
    for (const [name, value] of Object.entries(headers)) reply.header(name, value);
    reply.statusCode = status;
    return body.length === 0
      ? undefined
      : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  }
}

type Held =
  | { readonly kind: 'complete'; readonly body: Uint8Array }
  | { readonly kind: 'broken'; readonly error: unknown }
  | { readonly kind: 'outgrown'; readonly whole: Readable };

async function hold(payload: unknown, maxHeldBytes: number): Promise<Held> {
  if (payload === undefined || payload === null) return { kind: 'complete', body: Buffer.alloc(0) };
  if (typeof payload === 'string') return { kind: 'complete', body: Buffer.from(payload) };
  if (payload instanceof Uint8Array) return { kind: 'complete', body: payload };
  return holdStream(toReadable(payload), maxHeldBytes);
}

async function holdStream(source: Readable, maxHeldBytes: number): Promise<Held> {
  const chunks: Uint8Array[] = [];
  let heldBytes = 0;
  try {
    for await (const chunk of source.iterator({ destroyOnReturn: false })) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Uint8Array);
      chunks.push(bytes);
      heldBytes += bytes.length;
      if (heldBytes > maxHeldBytes) return { kind: 'outgrown', whole: rejoined(chunks, source) };
    }
  } catch (error) {
    return { kind: 'broken', error };
  }
  return { kind: 'complete', body: Buffer.concat(chunks) };
}

function rejoined(chunks: readonly Uint8Array[], rest: Readable): Readable {
  const whole = new PassThrough();
  for (const chunk of chunks) whole.write(chunk);
  // An error of the source destroys the copy, which Fastify watches.
  pipeline(rest, whole, () => undefined);
  return whole;
}

/** Fastify sends Node's streams, the web's, and web responses. */
function toReadable(payload: unknown): Readable {
  if (payload instanceof Readable) return payload;
  if (payload instanceof Response) return toReadable(payload.body ?? Readable.from([]));
  if (payload instanceof ReadableStream) return Readable.fromWeb(payload as never);
  return new Readable().wrap(payload as NodeJS.ReadableStream);
}

function isBytes(payload: unknown): boolean {
  return typeof payload === 'string' || payload instanceof Uint8Array;
}
