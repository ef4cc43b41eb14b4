import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** `writeHead`'s fields: by name, flat (name, value, name, value), or in pairs. */
export type HeaderFields =
  OutgoingHttpHeaders | readonly (OutgoingHttpHeader | readonly [string, string])[];

export type Chunk = Uint8Array | string;

/** Takes the calls that a shadowed response receives. */
export interface ResponseRecorder {
  readonly isHeadersSent: boolean;
  readonly isEnded: boolean;
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

const SHADOW = Symbol('nestjs-idempotency.shadow');

type ShadowedResponse = ServerResponse & { [SHADOW]: ResponseShadow };

const NAMES = [
  'writeHead',
  'flushHeaders',
  'write',
  'end',
  'setHeader',
  'appendHeader',
  'removeHeader',
] as const;

type Shadowed = Pick<ServerResponse, (typeof NAMES)[number]>;

/**
 * Own methods laid over those of one response, in front of whatever middleware has put there. They find
 * their recorder on the response itself, so none is made anew for a request.
 */
export class ResponseShadow {
  /** Methods that middleware had put on the response before; the others are inherited. */
  private readonly covered: Partial<Shadowed> = {};

  constructor(
    private readonly response: ServerResponse,
    readonly recorder: ResponseRecorder,
  ) {
    const shadowed = response as ShadowedResponse;
    for (const name of NAMES) {
      const own = Object.getOwnPropertyDescriptor(response, name);
      if (own !== undefined) Object.defineProperty(this.covered, name, own);
    }
    shadowed[SHADOW] = this;
    Object.assign(response, METHODS);
    Object.defineProperties(response, STATE);
  }

  /** Gives the response back what it had. */
  remove(): void {
    const { response } = this;
    for (const name of NAMES) {
      const covered = Object.getOwnPropertyDescriptor(this.covered, name);
      if (covered === undefined) Reflect.deleteProperty(response, name);
      else Object.defineProperty(response, name, covered);
    }
    for (const name of [...Object.keys(STATE), SHADOW]) Reflect.deleteProperty(response, name);
  }

  /** The method that lies under the shadow. */
  under<Name extends keyof Shadowed>(name: Name): Shadowed[Name] {
    const inherited = Object.getPrototypeOf(this.response) as Shadowed;
    return this.covered[name] ?? inherited[name];
  }
}

type WriteArguments = [
  chunk?: Chunk | (() => void),
  encoding?: BufferEncoding | (() => void),
  callback?: () => void,
];

const METHODS = {
  writeHead(
    this: ShadowedResponse,
    status: number,
    reason?: string | HeaderFields,
    fields?: HeaderFields,
  ) {
    const isText = typeof reason === 'string';
    this[SHADOW].recorder.writeHead(
      status,
      isText ? reason : undefined,
      fields ?? (isText ? undefined : reason),
    );
    return this;
  },

  flushHeaders(this: ShadowedResponse) {
    this[SHADOW].recorder.flushHeaders();
  },

  write(this: ShadowedResponse, ...args: WriteArguments) {
    const { chunk, encoding, callback } = sorted(args);
    return this[SHADOW].recorder.write(chunk ?? '', encoding, callback);
  },

  end(this: ShadowedResponse, ...args: WriteArguments) {
    const { chunk, encoding, callback } = sorted(args);
    this[SHADOW].recorder.end(chunk, encoding, callback);
    return this;
  },

  setHeader(this: ShadowedResponse, ...args: Parameters<ServerResponse['setHeader']>) {
    if (takesHeaders(this, 'set')) this[SHADOW].under('setHeader').apply(this, args);
    return this;
  },

  appendHeader(this: ShadowedResponse, ...args: Parameters<ServerResponse['appendHeader']>) {
    if (takesHeaders(this, 'append')) this[SHADOW].under('appendHeader').apply(this, args);
    return this;
  },

  removeHeader(this: ShadowedResponse, ...args: Parameters<ServerResponse['removeHeader']>) {
    if (takesHeaders(this, 'remove')) this[SHADOW].under('removeHeader').apply(this, args);
  },
};

// While an answer is held nothing has been sent, yet whoever looks must see that it has: a filter would
// answer a second time, for an error thrown after the answer.
const STATE: PropertyDescriptorMap & ThisType<ShadowedResponse> = {
  headersSent: {
    configurable: true,
    get() {
      return this[SHADOW].recorder.isHeadersSent;
    },
  },
  writableEnded: {
    configurable: true,
    get() {
      return this[SHADOW].recorder.isEnded;
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
function takesHeaders(response: ShadowedResponse, verb: string): boolean {
  const { recorder } = response[SHADOW];
  if (recorder.isHeadersSent && !recorder.isEnded) throw headersSentError(verb);
  return !recorder.isEnded;
}

/** What Node throws at those who come too late. */
export function headersSentError(verb: string): Error {
  return Object.assign(new Error(`Cannot ${verb} headers after they are sent to the client`), {
    code: 'ERR_HTTP_HEADERS_SENT',
  });
}
