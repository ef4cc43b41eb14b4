import { ServerResponse, type OutgoingHttpHeader, type OutgoingHttpHeaders } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** `writeHead`'s fields: by name, flat (name, value, name, value), or in pairs. */
export type HeaderFields =
  OutgoingHttpHeaders | readonly (OutgoingHttpHeader | readonly [string, string])[];

export type Chunk = Uint8Array | string;

/** What is left of a recorded response: header fields can be set; only the body can be written; it looks ended. */
export type RecordedPhase = 'head' | 'body' | 'ended';

export interface ResponseRecorder {
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
/** On a prototype with the patched methods: the prototype below it. */
const BELOW = Symbol('nestjs-idempotency:below-response-patch');

type PatchedResponse = ServerResponse & {
  [PATCH]?: ResponsePatch;
  readonly [BELOW]?: PatchedMethods;
};

type PatchedMethods = Pick<
  ServerResponse,
  'writeHead' | 'flushHeaders' | 'write' | 'end' | 'setHeader' | 'appendHeader' | 'removeHeader'
>;

/**
 * Patches one response, also middleware's methods. They find their recorder on it: none is created per request.
 *
 * The patched methods are on a prototype between the response and its class, one for all responses of a class: to set
 * and delete ten own properties costs V8 the response's hidden class, and a replay a fifth of its time. Own methods of
 * middleware are replaced on the response itself. The prototype stays on the response, and then passes calls on.
 */
export class ResponsePatch {
  /** The own properties that were replaced, with what was there. */
  private replaced = NOTHING_REPLACED;
  isActive = true;
  /** The recorder's, kept here because each header field that Nest sets asks for it. */
  phase: RecordedPhase = 'head';

  /** @param isOwn - replaces all on the response itself, which other code may give another prototype. */
  constructor(
    private readonly response: ServerResponse,
    readonly recorder: ResponseRecorder,
    isOwn: boolean,
  ) {
    if (isOwn) dropLayout(response);
    setPatch(response, this);
    try {
      if (isOwn) for (const name of NAMES) this.replace(name);
      else this.putInFront();
    } catch (error) {
      // One of them is read-only. A half-patched response could not be used.
      this.remove();
      throw error;
    }
  }

  /** Restores own methods. Those that other code has set since then stay, and reach the originals through the patch. */
  remove(): void {
    const { response } = this;
    this.isActive = false;
    for (const [name, replaced] of this.replaced) {
      if (!isOurs(name, Object.getOwnPropertyDescriptor(response, name))) continue;
      if (replaced === undefined) Reflect.deleteProperty(response, name);
      else Object.defineProperty(response, name, replaced);
    }
  }

  original<Name extends keyof PatchedMethods>(name: Name): PatchedMethods[Name] {
    const replaced = this.replaced.get(name) as
      TypedPropertyDescriptor<PatchedMethods[Name]> | undefined;
    return replaced?.value ?? below(this.response)[name];
  }

  /** The response as it is without its recorder: what `send` calls reaches the originals, and what these call. */
  bypassed<Result>(send: () => Result): Result {
    const { isActive } = this;
    this.isActive = false;
    try {
      return send();
    } finally {
      this.isActive = isActive;
    }
  }

  private putInFront(): void {
    const { response } = this;
    if (!(BELOW in response)) {
      Object.setPrototypeOf(response, prototypeAbove(Object.getPrototypeOf(response) as object));
    }
    for (const name of NAMES) if (Object.hasOwn(response, name)) this.replace(name);
  }

  private replace(name: string): void {
    const { response } = this;
    const own = Object.getOwnPropertyDescriptor(response, name);
    const { value, get } = PATCHED[name] as { value?: unknown; get?: () => unknown };
    if (own === undefined) Object.defineProperty(response, name, PATCHED[name] as object);
    else Object.defineProperty(response, name, get ? { get } : { value, writable: true });
    if (this.replaced === NOTHING_REPLACED) this.replaced = new Map();
    // Middleware may restore what it found, which was one of these methods.
    this.replaced.set(name, isOurs(name, own) ? undefined : own);
  }
}

const NOTHING_REPLACED = new Map<string, PropertyDescriptor | undefined>();

/** Not enumerable, so that copies and logs leave it out. */
function setPatch(response: PatchedResponse, patch: ResponsePatch): void {
  if (Object.hasOwn(response, PATCH)) response[PATCH] = patch;
  else Object.defineProperty(response, PATCH, { value: patch, writable: true });
}

/** Sends past the recorder of the response, if it has one: see {@link ResponsePatch.bypassed}. */
export function bypass<Result>(response: PatchedResponse, send: () => Result): Result {
  return response[PATCH] === undefined ? send() : response[PATCH].bypassed(send);
}

/** What has the methods that are not the response's own: its class, or what other code put in front of it. */
function below(response: PatchedResponse): PatchedMethods {
  return response[BELOW] ?? (Object.getPrototypeOf(response) as PatchedMethods);
}

/**
 * Whether what is passed to `end` goes to Node's own socket as it is: over HTTP/1, and this response's method was not
 * replaced. What adapters of serverless platforms and tests put in the socket's place ignores a string's encoding.
 */
export function endsAsNode(response: PatchedResponse): boolean {
  const { end } = response[BELOW] ?? response;
  return (
    end === ServerResponse.prototype.end &&
    !Object.hasOwn(response, 'end') &&
    isOfNode(response.socket)
  );
}

/** Whether it is a socket of Node's own class, with its own methods. A destroyed response may have none. */
export function isOfNode(socket: Socket | null | undefined): boolean {
  if (socket === null || socket === undefined || Object.hasOwn(socket, 'write')) return false;
  const inherited: unknown = Object.getPrototypeOf(socket);
  return inherited === Socket.prototype || inherited === TLSSocket.prototype;
}

const prototypes = new WeakMap<object, object>();

function prototypeAbove(inherited: object): object {
  const known = prototypes.get(inherited);
  if (known !== undefined) return known;
  const above = Object.create(inherited, {
    ...PATCHED,
    [BELOW]: { value: inherited },
  }) as object;
  prototypes.set(inherited, above);
  return above;
}

const DELETED = Symbol('nestjs-idempotency.deleted');
const LAST = Symbol('nestjs-idempotency.last');

/**
 * Express changes a response's prototype, so V8 copies its hidden class with each added property. Deleting a property
 * other than the last drops the class (as removing the patch does anyway): the next ten additions cost a third.
 */
function dropLayout(response: ServerResponse): void {
  Object.assign(response, { [DELETED]: true, [LAST]: true });
  Reflect.deleteProperty(response, DELETED);
  Reflect.deleteProperty(response, LAST);
}

type HeadArguments = [status: number, reason?: string | HeaderFields, fields?: HeaderFields];

type WriteArguments = [
  chunk?: Chunk | (() => void),
  encoding?: BufferEncoding | (() => void),
  callback?: () => void,
];

const METHODS = {
  writeHead(this: PatchedResponse, ...args: HeadArguments) {
    const patch = activePatch(this);
    if (patch === undefined) return passOn(this, 'writeHead', args);
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
    const patch = activePatch(this);
    if (patch === undefined) passOn(this, 'flushHeaders', []);
    else patch.recorder.flushHeaders();
  },

  write(this: PatchedResponse, ...args: WriteArguments) {
    const patch = activePatch(this);
    if (patch === undefined) return passOn(this, 'write', args);
    const { chunk, encoding, callback } = sorted(args);
    return patch.recorder.write(checkedChunk(chunk), encoding, callback);
  },

  end(this: PatchedResponse, ...args: WriteArguments) {
    const patch = activePatch(this);
    if (patch === undefined) return passOn(this, 'end', args);
    const { chunk, encoding, callback } = sorted(args);
    const bytes = chunk === undefined ? undefined : checkedChunk(chunk);
    patch.recorder.end(bytes, encoding, callback);
    return this;
  },

  setHeader(this: PatchedResponse, ...args: Parameters<ServerResponse['setHeader']>) {
    if (takesHeaders(this, 'set')) passOn(this, 'setHeader', args);
    return this;
  },

  appendHeader(this: PatchedResponse, ...args: Parameters<ServerResponse['appendHeader']>) {
    if (takesHeaders(this, 'append')) passOn(this, 'appendHeader', args);
    return this;
  },

  removeHeader(this: PatchedResponse, ...args: Parameters<ServerResponse['removeHeader']>) {
    if (takesHeaders(this, 'remove')) passOn(this, 'removeHeader', args);
  },
};

// A buffered response must look sent: otherwise a filter would send a second one for an error thrown afterwards.
const STATE: PropertyDescriptorMap & ThisType<PatchedResponse> = {
  headersSent: {
    configurable: true,
    get() {
      const patch = activePatch(this);
      return patch === undefined ? stateBelow(this, 'headersSent') : patch.phase !== 'head';
    },
  },
  writableEnded: {
    configurable: true,
    get() {
      const patch = activePatch(this);
      return patch === undefined ? stateBelow(this, 'writableEnded') : patch.phase === 'ended';
    },
  },
  writableNeedDrain: {
    configurable: true,
    get() {
      return activePatch(this)?.recorder.needsDrain ?? stateBelow(this, 'writableNeedDrain');
    },
  },
};

const PATCHED: PropertyDescriptorMap = { ...Object.getOwnPropertyDescriptors(METHODS), ...STATE };
const NAMES = Object.keys(PATCHED);

function isOurs(name: string, own: PropertyDescriptor | undefined): boolean {
  return own !== undefined && own.value === PATCHED[name]?.value && own.get === PATCHED[name]?.get;
}

/** `undefined` after its removal, and on an object that got the prototype from a patched response. */
function activePatch({ [PATCH]: patch }: PatchedResponse): ResponsePatch | undefined {
  return patch?.isActive === true ? patch : undefined;
}

function passOn(
  response: PatchedResponse,
  name: keyof PatchedMethods,
  args: readonly unknown[],
): unknown {
  const original = response[PATCH]?.original(name) ?? below(response)[name];
  return Reflect.apply(original, response, args);
}

function stateBelow(response: PatchedResponse, name: string): unknown {
  return Reflect.get(below(response), name, response);
}

function sorted([chunk, encoding, callback]: WriteArguments) {
  if (typeof chunk === 'function') return { callback: chunk };
  const bytes = chunk ?? undefined;
  if (typeof encoding === 'function') return { chunk: bytes, callback: encoding };
  return { chunk: bytes, encoding, callback };
}

/** Whether a field may be set. After completion it is ignored: a throw would make Express destroy the connection. */
function takesHeaders(response: PatchedResponse, verb: string): boolean {
  const phase = activePatch(response)?.phase;
  if (phase === 'body') throw headersSentError(verb);
  return phase !== 'ended';
}

/** Throws Node's error for an invalid chunk now, while the caller can still send another response. */
function checkedChunk(chunk: unknown): Chunk {
  if (typeof chunk === 'string' || chunk instanceof Uint8Array) return chunk;
  throw Object.assign(new TypeError('A chunk must be a string or a Uint8Array'), {
    code: 'ERR_INVALID_ARG_TYPE',
  });
}

export function headersSentError(verb: string): Error {
  return Object.assign(new Error(`Cannot ${verb} headers after they are sent to the client`), {
    code: 'ERR_HTTP_HEADERS_SENT',
  });
}
