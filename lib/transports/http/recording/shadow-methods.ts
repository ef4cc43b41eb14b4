import type { ServerResponse } from 'node:http';
import type { Chunk, HeaderFields, ResponseRecorder } from './response-recorder.js';
import { checkedChunk, headersSentError } from './response-refusals.js';

export const NAMES = [
  'writeHead',
  'flushHeaders',
  'write',
  'end',
  'setHeader',
  'appendHeader',
  'removeHeader',
] as const;

export type Shadowed = Pick<ServerResponse, (typeof NAMES)[number]>;

/** What the methods find on the response that they are called on. */
export interface Shadow {
  readonly recorder: ResponseRecorder;
  readonly isActive: boolean;
  /** Methods that stood on the response itself before; the others are inherited. */
  readonly covered: PropertyDescriptorMap;
  /** Whether this method lies on the response itself. */
  isLaid(name: keyof Shadowed): boolean;
}

export const SHADOW = Symbol('nestjs-idempotency.shadow');

/** On a prototype that has the methods: what it had in their place. */
export const BENEATH = Symbol('nestjs-idempotency.beneath');

export type ShadowedResponse = ServerResponse & {
  [SHADOW]?: Shadow | undefined;
  readonly [BENEATH]?: ServerResponse;
};

/** None where nothing of the response is recorded, or no longer. */
function shadowOf(response: ShadowedResponse): Shadow | undefined {
  const shadow = response[SHADOW];
  return shadow?.isActive === true ? shadow : undefined;
}

/** The method that lies under the shadow. */
export function under<Name extends keyof Shadowed>(
  response: ShadowedResponse,
  name: Name,
): Shadowed[Name] {
  const covered = response[SHADOW]?.covered[name] as
    TypedPropertyDescriptor<Shadowed[Name]> | undefined;
  return covered?.value ?? inherited(response, name);
}

function inherited<Name extends keyof Shadowed>(
  response: ShadowedResponse,
  name: Name,
): Shadowed[Name] {
  const method = (Object.getPrototypeOf(response) as Shadowed)[name];
  const isOfClass = (method as unknown) === CLASS_METHODS[name];
  return isOfClass && response[BENEATH] !== undefined ? response[BENEATH][name] : method;
}

type HeadArguments = [status: number, reason?: string | HeaderFields, fields?: HeaderFields];

type WriteArguments = [
  chunk?: Chunk | (() => void),
  encoding?: BufferEncoding | (() => void),
  callback?: () => void,
];

/** The methods of a response in shadow. */
export const METHODS: Readonly<Record<keyof Shadowed, unknown>> & ThisType<ShadowedResponse> = {
  writeHead(this: ShadowedResponse, ...args: HeadArguments) {
    const shadow = shadowOf(this);
    if (shadow === undefined) return Reflect.apply(under(this, 'writeHead'), this, args) as unknown;
    const [status, reason, fields] = args;
    const isText = typeof reason === 'string';
    shadow.recorder.writeHead(
      status,
      isText ? reason : undefined,
      fields ?? (isText ? undefined : reason),
    );
    return this;
  },

  flushHeaders(this: ShadowedResponse) {
    const shadow = shadowOf(this);
    if (shadow === undefined) under(this, 'flushHeaders').call(this);
    else shadow.recorder.flushHeaders();
  },

  write(this: ShadowedResponse, ...args: WriteArguments) {
    const shadow = shadowOf(this);
    if (shadow === undefined) return Reflect.apply(under(this, 'write'), this, args) as unknown;
    const { chunk, encoding, callback } = sorted(args);
    return shadow.recorder.write(checkedChunk(chunk), encoding, callback);
  },

  end(this: ShadowedResponse, ...args: WriteArguments) {
    const shadow = shadowOf(this);
    if (shadow === undefined) return Reflect.apply(under(this, 'end'), this, args) as unknown;
    const { chunk, encoding, callback } = sorted(args);
    const bytes = chunk === undefined ? undefined : checkedChunk(chunk);
    shadow.recorder.end(bytes, encoding, callback);
    return this;
  },

  setHeader(this: ShadowedResponse, ...args: Parameters<ServerResponse['setHeader']>) {
    if (takesHeaders(this, 'set')) under(this, 'setHeader').apply(this, args);
    return this;
  },

  appendHeader(this: ShadowedResponse, ...args: Parameters<ServerResponse['appendHeader']>) {
    if (takesHeaders(this, 'append')) under(this, 'appendHeader').apply(this, args);
    return this;
  },

  removeHeader(this: ShadowedResponse, ...args: Parameters<ServerResponse['removeHeader']>) {
    if (takesHeaders(this, 'remove')) under(this, 'removeHeader').apply(this, args);
  },
};

/**
 * The same for a class. Called while they lie on the response itself, too, they were found there before by whoever has
 * put something over them, and calls from under the shadow.
 */
export const CLASS_METHODS = Object.fromEntries(
  NAMES.map((name) => [name, ofClass(name)]),
) as Readonly<Record<keyof Shadowed, unknown>>;

function ofClass(name: keyof Shadowed) {
  const method = METHODS[name] as (...args: unknown[]) => unknown;
  return function (this: ShadowedResponse, ...args: unknown[]): unknown {
    const shadow = shadowOf(this);
    const isFromUnder = shadow === undefined || shadow.isLaid(name);
    return Reflect.apply(isFromUnder ? inherited(this, name) : method, this, args);
  };
}

// While an answer is held nothing has been sent, yet whoever looks must see that it has: a filter would
// answer a second time, for an error thrown after the answer.
export const STATE: PropertyDescriptorMap = {
  headersSent: state('headersSent', (recorder) => recorder.isHeadersSent),
  writableEnded: state('writableEnded', (recorder) => recorder.isEnded),
  writableNeedDrain: state('writableNeedDrain', (recorder) => recorder.needsDrain),
};

function state(
  name: 'headersSent' | 'writableEnded' | 'writableNeedDrain',
  tell: (recorder: ResponseRecorder) => boolean,
): PropertyDescriptor & ThisType<ShadowedResponse> {
  return {
    configurable: true,
    get() {
      const shadow = shadowOf(this);
      if (shadow !== undefined) return tell(shadow.recorder);
      // Only one of a prototype is there still when the shadow is not.
      return Reflect.get(this[BENEATH] ?? {}, name, this) as unknown;
    },
  };
}

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
  const shadow = shadowOf(response);
  if (shadow === undefined) return true;
  const { recorder } = shadow;
  if (recorder.isHeadersSent && !recorder.isEnded) throw headersSentError(verb);
  return !recorder.isEnded;
}
