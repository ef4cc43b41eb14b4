import type { FieldRequest } from './graphql-field.js';

/** Tells when a caller has left. */
export interface Departure {
  readonly signal: AbortSignal;
  /** It does not matter any more. */
  forget(): void;
}

interface Connection {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

/** @param request - without one, nobody is known to leave. */
export function departureOf(request: FieldRequest | undefined): Departure {
  const gone = new AbortController();
  const leave = () => {
    gone.abort();
  };
  const { stream, socket } = request?.raw ?? request ?? {};
  const connection = [stream, socket].find(isConnection);
  if (connection?.destroyed === true) leave();
  connection?.once('close', leave);
  return {
    signal: gone.signal,
    forget: () => {
      connection?.removeListener('close', leave);
    },
  };
}

function isConnection(value: unknown): value is Connection {
  return typeof (value as Partial<Connection> | null | undefined)?.once === 'function';
}
