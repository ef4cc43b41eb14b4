import { types } from 'node:util';
import { connectionFailures, describeConnectionError, ENDS } from '../link/connection-errors.js';
import {
  failureOfClient,
  failureOfReply,
  NotSentError,
  TooFewReplicasError,
  type LinkFailure,
  type SendFailure,
} from '../link/send-failure.js';

export class WrongDatabaseError extends Error {
  override readonly name = 'WrongDatabaseError';

  constructor(database: number, reason: string) {
    super(
      `Cannot select database ${String(database)}: ${reason.replace(/\.?$/, '.')} The store sends no command to another database. Set the end of "url", or "db" of "connection" (of a Cluster: of its "redisOptions"), to a database that the server has and the user may SELECT. On a cluster, Valkey 9 has as many as its setting cluster-databases says, others have 0 alone.`,
    );
  }
}

/** A connection that ended before the server has ever replied. */
export class NoReplyError extends Error {
  override readonly name = 'NoReplyError';
  readonly code: string;

  constructor(isEncrypted: boolean, reason: string, options?: ErrorOptions) {
    super(
      `The server closed the connection before it replied (${reason}). ${isEncrypted ? ENDED_WITH_TLS : ENDED_WITHOUT_TLS} A proxy in between may not know HELLO, CLIENT or INFO, as twemproxy: connect to Redis itself.`,
      options,
    );
    this.code = ENDS.find((code) => reason.includes(code)) ?? 'ECONNRESET';
  }
}

const ENDED_WITHOUT_TLS = 'Does this port speak TLS? Use rediss://.';
const ENDED_WITH_TLS =
  'Does it require a client certificate? Pass connection: { tls: { cert, key } }. Does this port not speak TLS? Use redis://.';

/** What an error says of the command that it ended. */
export function failureOf(error: unknown): LinkFailure {
  return isErrorReply(error)
    ? failureOfReply(error.message)
    : failureOfClient(kindOf(error), describeFailure(error));
}

function kindOf(error: unknown): SendFailure {
  if (error instanceof WrongDatabaseError) return 'misconfigured';
  if (error instanceof TooFewReplicasError) return 'unreplicated';
  if (error instanceof NotSentError) return 'not_executed';
  // ioredis never sent a command that it rejects for lack of an offline queue. Its other errors may follow a send, also
  // "Connection is closed." and those of redirections.
  const isUnsent =
    types.isNativeError(error) && error.message.includes('enableOfflineQueue options is false');
  return isUnsent ? 'not_executed' : 'unknown';
}

export const { unavailableAfter, closedAfter } = connectionFailures(failureOf, (state, error) =>
  error instanceof WrongDatabaseError ? error.message : `${state} (${describeFailure(error)})`,
);

type ErrorReply = Error & { readonly name: 'ReplyError' };

/** Whether the server replied this error. Compared by name: the class belongs to ioredis. */
export function isErrorReply(error: unknown): error is ErrorReply {
  return types.isNativeError(error) && error.name === 'ReplyError';
}

/** The failure as text. Never the error itself: ioredis adds the command's arguments, with tokens and bodies. */
export function describeFailure(error: unknown): string {
  if (!types.isNativeError(error)) return String(error);
  if (isErrorReply(error)) return failureOfReply(error.message).cause;
  return describeConnectionError(error, (settings) => `connection: { tls: { ${settings} } }`);
}
