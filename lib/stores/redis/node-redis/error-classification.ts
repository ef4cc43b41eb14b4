import { types } from 'node:util';
import { connectionFailures, describeConnectionError } from '../link/connection-errors.js';
import {
  failureOfClient,
  failureOfReply,
  NotSentError,
  TooFewReplicasError,
  type LinkFailure,
  type SendFailure,
} from '../link/send-failure.js';

/** What was not written yet when the client gave it up. Its classes have no name that survives a bundler. */
const UNSENT =
  /^(?:The client is (?:closed|offline)|The command was aborted|The queue is full|Command timeout during maintenance)/;

/** What an error says of the command that it ended. */
export function failureOf(error: unknown): LinkFailure {
  return isErrorReply(error)
    ? failureOfReply(error.message)
    : failureOfClient(kindOf(error), describeFailure(error));
}

function kindOf(error: unknown): SendFailure {
  if (error instanceof TooFewReplicasError) return 'unreplicated';
  if (error instanceof NotSentError) return 'not_executed';
  // Any other one may follow a send, as "Socket closed unexpectedly" and the errors of sockets.
  return types.isNativeError(error) && UNSENT.test(error.message) ? 'not_executed' : 'unknown';
}

export const { unavailableAfter, closedAfter } = connectionFailures(
  failureOf,
  (state, error) => `${state} (${describeFailure(error)})`,
);

/** The server's replies begin with a code in capitals; errors of the client and of sockets do not. */
const CODE = /^[A-Z][A-Z0-9]+(?: |$)/;

export function isErrorReply(error: unknown): error is Error {
  return types.isNativeError(error) && !('code' in error) && CODE.test(error.message);
}

/** The failure as text. */
export function describeFailure(error: unknown): string {
  if (!types.isNativeError(error)) return String(error);
  if (isErrorReply(error)) return failureOfReply(error.message).cause;
  return describeConnectionError(
    error,
    (settings) => `connection: { socket: { tls: true, ${settings} } }`,
  );
}
