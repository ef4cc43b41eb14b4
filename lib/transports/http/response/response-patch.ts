import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** `writeHead`'s fields: by name, flat (name, value, name, value), or in pairs. */
export type HeaderFields =
  OutgoingHttpHeaders | readonly (OutgoingHttpHeader | readonly [string, string])[];

export type Chunk = Uint8Array | string;

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

const PATCH = Symbol('nestjs-idempotency:response-patch');

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

/** Patches one response, also middleware's methods. They find their recorder on it: none is created per request. */
export class ResponsePatch {
  /** The methods that middleware had set on the response; the others are inherited. */
  private readonly replaced: PropertyDescriptorMap = {};
  private isRemoved = false;

  constructor(
    private readonly response: ServerResponse,
    readonly recorder: ResponseRecorder,
  ) {
    for (const name of NAMES) {
      const own = Object.getOwnPropertyDescriptor(response, name);
      // Middleware may restore what it found, which was one of these methods.
      if (own !== undefined && own.value !== OURS[name]) this.replaced[name] = own;
    }
    dropLayout(response);
    (response as PatchedResponse)[PATCH] = this;
    try {
      Object.assign(response, METHODS);
      Object.defineProperties(response, STATE);
    } catch (error) {
      // One of them is read-only. A half-patched response could not be used.
      this.remove();
      throw error;
    }
  }

  get isActive(): boolean {
    return !this.isRemoved;
  }

  /** Restores the methods. Those that other code has set since then stay, and reach the originals through the patch. */
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

  original<Name extends keyof PatchedMethods>(name: Name): PatchedMethods[Name] {
    const inherited = Object.getPrototypeOf(this.response) as PatchedMethods;
    const replaced = this.replaced[name] as
      TypedPropertyDescriptor<PatchedMethods[Name]> | undefined;
    return replaced?.value ?? inherited[name];
  }
}

const DELETED = Symbol('nestjs-idempotency.deleted');

/**
 * Express changes a response's prototype, so V8 copies its hidden class with each added property. Deleting a property
 * other than the last drops the class (as removing the patch does anyway): the next ten additions cost a third.
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

// A buffered response must look sent: otherwise a filter would send a second one for an error thrown afterwards.
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

/** Whether a field may be set. After completion it is ignored: a throw would make Express destroy the connection. */
function takesHeaders(response: PatchedResponse, verb: string): boolean {
  const { recorder, isActive } = response[PATCH];
  if (!isActive) return true;
  if (recorder.isHeadersSent && !recorder.isEnded) throw headersSentError(verb);
  return !recorder.isEnded;
}

/** Throws Node's error for an invalid chunk now, while the caller can still send another response. */
function checkedChunk(chunk: unknown): Chunk {
  if (typeof chunk === 'string' || chunk instanceof Uint8Array) return chunk;
  throw Object.assign(new TypeError('A chunk must be a string or a Uint8Array'), {
    code: 'ERR_INVALID_ARG_TYPE',
  });
}

/** {@link checkedChunk} for a status line. */
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

/** Tabs, spaces, printable ASCII and obs-text (RFC 9112 §4). */
const REASON = /^[\t\x20-\x7e\x80-\xff]*$/;

export function headersSentError(verb: string): Error {
  return Object.assign(new Error(`Cannot ${verb} headers after they are sent to the client`), {
    code: 'ERR_HTTP_HEADERS_SENT',
  });
}
