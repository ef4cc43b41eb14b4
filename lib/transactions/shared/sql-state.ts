import { types } from 'node:util';
import { asError } from '../../core/errors/errors.js';

/** Fields in which drivers and libraries keep the SQLSTATE. */
const CODES = ['code', 'originalCode'] as const;
/** Fields in which libraries keep the driver's error. Prisma nests it in `meta`. */
const INSIDE = [
  ...(['cause', 'driverError', 'originalError', 'original'] as const),
  ...(['meta', 'driverAdapterError'] as const),
] as const;
const DEEPEST = 5;

/** By the classes of PostgreSQL: codes of Node (EPIPE) and of Prisma (P2010) are five characters, too. */
const SQLSTATE = /^(?:\d[\dA-Z]|F0|HV|P0|XX)[\dA-Z]{3}$/;

type Fields = Readonly<Record<string, unknown>>;

/** An error, and those that a library has wrapped in it, from the outside in. */
export function* layersOf(error: unknown, depth = 0): Generator<Fields> {
  if (typeof error !== 'object' || error === null || depth > DEEPEST) return;
  const fields = error as Fields;
  yield fields;
  for (const name of INSIDE) yield* layersOf(fields[name], depth + 1);
}

/** Whether `error`, or an error within it, has one of these SQLSTATEs or codes. */
export function hasSqlState(error: unknown, states: ReadonlySet<unknown>): boolean {
  for (const fields of layersOf(error)) {
    if (CODES.some((name) => states.has(fields[name]))) return true;
  }
  return false;
}

/** An error that the server sent. Structural: its class belongs to the driver. */
export interface ServerError extends Error {
  /** SQLSTATE, five characters. */
  readonly code: string;
  readonly severity: string;
}

export function isServerError(error: unknown): error is ServerError {
  return (
    types.isNativeError(error) &&
    'severity' in error &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code.length === 5
  );
}

/** What the server sent, out of the error of a library: its message, which may show the statement's values, is left out. */
class UnwrappedServerError extends Error implements ServerError {
  override readonly name = 'UnwrappedServerError';

  constructor(
    readonly code: string,
    readonly severity: string,
    message: string,
  ) {
    super(message);
  }
}

/**
 * The server's error within that of a library, or the error itself if there is none.
 * @param thrown - by the `query` of a library.
 */
export function unwrapServerError(thrown: unknown): Error {
  for (const fields of layersOf(thrown)) {
    if (isServerError(fields)) return fields;
    const state = CODES.map((name) => fields[name]).find(isState);
    if (state === undefined) continue;
    const { severity, originalMessage, message } = fields;
    const text = [originalMessage, message].find((one) => typeof one === 'string');
    return new UnwrappedServerError(
      state,
      typeof severity === 'string' ? severity : 'ERROR',
      text ?? `SQLSTATE ${state}`,
    );
  }
  return asError(thrown);
}

function isState(code: unknown): code is string {
  return typeof code === 'string' && SQLSTATE.test(code);
}
