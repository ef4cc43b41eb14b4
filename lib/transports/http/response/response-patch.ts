import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** `writeHead`'s fields: by name, flat (name, value, name, value), or in pairs. */
export type HeaderFields =
  OutgoingHttpHeaders | readonly (OutgoingHttpHeader | readonly [string, string])[];

export type Chunk = Uint8Array | string;

/** Takes the calls that a shadowed response receives. */
export interface ResponseRecorder {
  readonly isHeadersSent: boolean;
  readonly isEnded: boolean;
  readonly needsDrain: boolean;
  writeHead(status: number, reason: string | undefined, fields: HeaderFields | undefined): void;
  flushHeaders(): void;
  write(
    chunk: Chunk,
    encoding: BufferEncoding | undefined,
    callback: ((error?: Error | null) => void) | undefined,
  ): boolean;
  end(
    chunk: Chunk | undefined,
    encoding: BufferEncoding | undefined,
    callback: (() => void) | undefined,
  ): void;
}

const PATCH = Symbol('nestjs-idempotency.shadow');

type PatchedResponse = ServerResponse & { [PATCH]: ResponsePatch };

const NAMES = [
  'writeHead',
  'flushHeaders',
  'write',
  'end',
  'setHeader',
  'appendHeader',
  'removeHeader',
] as const;

type PatchedMethods = Pick<ServerResponse, (typeof NAMES)[number]>;

/**
 * Own methods laid over those of one response, in front of whatever middleware has put there. They find
 * their recorder on the response itself, so none is made anew for a request.
 */
export class ResponsePatch {
  /** Methods that middleware had put on the response before; the others are inherited. */
  private readonly replaced: PropertyDescriptorMap = {};
  private isRemoved = false;

  constructor(
    private readonly response: ServerResponse,
    readonly recorder: ResponseRecorder,
  ) {
    for (const name of NAMES) {
      const own = Object.getOwnPropertyDescriptor(response, name);
      // Some put back what they have found, which was ours.
      if (own !== undefined && own.value !== OURS[name]) this.replaced[name] = own;
    }
    dropLayout(response);
    (response as PatchedResponse)[PATCH] = this;
    try {
      Object.assign(response, METHODS);
      Object.defineProperties(response, STATE);
    } catch (error) {
      // Somebody has made one of them read-only: with half a shadow nobody could answer.
      this.remove();
      throw error;
    }
  }

  /** Whether calls go to the recorder. */
  get isActive(): boolean {
    return !this.isRemoved;
  }

  /**
   * Gives the response back what it had. What others have laid over it meanwhile stays, and reaches what
   * lies under the shadow through it.
   */
  remove(): void {
    const { response } = this;
    this.isRemoved = true;
    for (const name of NAMES) {
      if (Object.getOwnPropertyDescriptor(response, name)?.value !== OURS[name]) continue;
      const replaced = this.replaced[name];
      if (replaced === undefined) Reflect.deleteProperty(response, name);
      else Object.defineProperty(response, name, replaced);
    }
    for (const name of Object.keys(STATE)) Reflect.deleteProperty(response, name);
  }

  /** The method that lies under the shadow. */
  original<Name extends keyof PatchedMethods>(name: Name): PatchedMethods[Name] {
    const inherited = Object.getPrototypeOf(this.response) as PatchedMethods;
    const replaced = this.replaced[name] as
      TypedPropertyDescriptor<PatchedMethods[Name]> | undefined;
    return replaced?.value ?? inherited[name];
  }
}

const DELETED = Symbol('nestjs-idempotency.deleted');

/**
 * V8 copies the layout of a response, whose prototype Express has changed, with every property that is added. Once a
 * property was deleted that is not the latest, it keeps none, and the ten that follow cost a third. The response comes to
 * that all the same when they are removed.
 */
function dropLayout(response: ServerResponse): void {
  Object.assign(response, { [DELETED]: true, [PATCH]: undefined });
  Reflect.deleteProperty(response, DELETED);
}

type HeadArguments = [status: number, reason?: string | HeaderFields, fields?: HeaderFields];

type WriteArguments = [
  chunk?: Chunk | (() => void),
  encoding?: BufferEncoding | (() => void),
  callback?: () => void,
];

const METHODS = {
  writeHead(this: PatchedResponse, ...args: HeadArguments) {
    const patch = this[PATCH];
    if (!patch.isActive) return Reflect.apply(patch.original('writeHead'), this, args) as unknown;
    const [status, reason, fields] = args;
    const isText = typeof reason === 'string';
    patch.recorder.writeHead(
      status,
      isText ? reason : undefined,
      fields ?? (isText ? undefined : reason),
    );
    return this;
  },

  flushHeaders(this: PatchedResponse) {
    const patch = this[PATCH];
    if (patch.isActive) patch.recorder.flushHeaders();
    else patch.original('flushHeaders').call(this);
  },

  write(this: PatchedResponse, ...args: WriteArguments) {
    const patch = this[PATCH];
    if (!patch.isActive) return Reflect.apply(patch.original('write'), this, args) as unknown;
    const { chunk, encoding, callback } = sorted(args);
    return patch.recorder.write(checkedChunk(chunk), encoding, callback);
  },

  end(this: PatchedResponse, ...args: WriteArguments) {
    const patch = this[PATCH];
    if (!patch.isActive) return Reflect.apply(patch.original('end'), this, args) as unknown;
    const { chunk, encoding, callback } = sorted(args);
    const bytes = chunk === undefined ? undefined : checkedChunk(chunk);
    patch.recorder.end(bytes, encoding, callback);
    return this;
  },

  setHeader(this: PatchedResponse, ...args: Parameters<ServerResponse['setHeader']>) {
    if (takesHeaders(this, 'set')) this[PATCH].original('setHeader').apply(this, args);
    return this;
  },

  appendHeader(this: PatchedResponse, ...args: Parameters<ServerResponse['appendHeader']>) {
    if (takesHeaders(this, 'append')) this[PATCH].original('appendHeader').apply(this, args);
    return this;
  },

  removeHeader(this: PatchedResponse, ...args: Parameters<ServerResponse['removeHeader']>) {
    if (takesHeaders(this, 'remove')) this[PATCH].original('removeHeader').apply(this, args);
  },
};

const OURS: Readonly<Record<string, unknown>> = METHODS;

// While an answer is held nothing has been sent, yet whoever looks must see that it has: a filter would
// answer a second time, for an error thrown after the answer.
const STATE: PropertyDescriptorMap & ThisType<PatchedResponse> = {
  headersSent: {
    configurable: true,
    get() {
      return this[PATCH].recorder.isHeadersSent;
    },
  },
  writableEnded: {
    configurable: true,
    get() {
      return this[PATCH].recorder.isEnded;
    },
  },
  writableNeedDrain: {
    configurable: true,
    get() {
      return this[PATCH].recorder.needsDrain;
    },
  },
};

function sorted([chunk, encoding, callback]: WriteArguments) {
  if (typeof chunk === 'function') return { callback: chunk };
  const bytes = chunk ?? undefined;
  if (typeof encoding === 'function') return { chunk: bytes, callback: encoding };
  return { chunk: bytes, encoding, callback };
}

/**
 * Once the answer is complete, what still comes is ignored and not refused: an error of whoever answers
 * a second time would have Express destroy the connection before the first answer has left.
 */
function takesHeaders(response: PatchedResponse, verb: string): boolean {
  const { recorder, isActive } = response[PATCH];
  if (!isActive) return true;
  if (recorder.isHeadersSent && !recorder.isEnded) throw headersSentError(verb);
  return !recorder.isEnded;
}

/** What Node throws where it is given what it cannot send: here, where the caller can still answer otherwise. */
function checkedChunk(chunk: unknown): Chunk {
  if (typeof chunk === 'string' || chunk instanceof Uint8Array) return chunk;
  throw Object.assign(new TypeError('A chunk must be a string or a Uint8Array'), {
    code: 'ERR_INVALID_ARG_TYPE',
  });
}

/** As {@link checkedChunk}, of a status line. */
export function checkStatusLine(status: number, reason: string | undefined): void {
  if (!(Math.trunc(status) >= 100 && Math.trunc(status) <= 999)) {
    throw Object.assign(new RangeError(`Invalid status code: ${String(status)}`), {
      code: 'ERR_HTTP_INVALID_STATUS_CODE',
    });
  }
  if (reason !== undefined && !REASON.test(reason)) {
    throw Object.assign(new TypeError('Invalid character in statusMessage'), {
      code: 'ERR_INVALID_CHAR',
    });
  }
}

/** RFC 9112 §4: printable ASCII, white space and what once was Latin-1. */
const REASON = /^[\t\x20-\x7e\x80-\xff]*$/;

/** What Node throws at those who come too late. */
export function headersSentError(verb: string): Error {
  return Object.assign(new Error(`Cannot ${verb} headers after they are sent to the client`), {
    code: 'ERR_HTTP_HEADERS_SENT',
  });
}
