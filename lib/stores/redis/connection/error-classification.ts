import { types } from 'node:util';

/** What the failure of one send says about the command. */
export type SendFailure =
  /** Not executed, and soon it may be: send it again. */
  | 'not_executed'
  /** Not executed, and not for as long as the server is short of something. */
  | 'rejected'
  /** It may have been executed, or may still be. */
  | 'unknown'
  /** Executed, and too few replicas have it: a failover may lose it. */
  | 'unreplicated'
  /** Not executed, and not before somebody mends the set-up. */
  | 'misconfigured'
  /** The server does not know the script's SHA-1. */
  | 'script_missing';

const BY_CODE: Readonly<Record<string, SendFailure>> = {
  NOSCRIPT: 'script_missing',

  LOADING: 'not_executed',
  CLUSTERDOWN: 'not_executed',
  TRYAGAIN: 'not_executed',
  MASTERDOWN: 'not_executed',
  BUSY: 'not_executed',
  UNKILLABLE: 'not_executed',
  NOREPLICAS: 'not_executed',
  MOVED: 'not_executed',
  ASK: 'not_executed',
  READONLY: 'not_executed',

  OOM: 'rejected',
  MISCONF: 'rejected',

  WRONGTYPE: 'misconfigured',
  UNKNOWNRECORD: 'misconfigured',
  NOAUTH: 'misconfigured',
  WRONGPASS: 'misconfigured',
  NOPERM: 'misconfigured',
  DENIED: 'misconfigured',
};

/** There is no connection to the server of the record. */
export class NotSentError extends Error {
  override readonly name = 'NotSentError';

  constructor() {
    super('there is no connection to the node that has the record');
  }
}

/** See {@link WaitReplicas}. */
export class TooFewReplicasError extends Error {
  override readonly name = 'TooFewReplicasError';

  constructor(confirmed: number, count: number, timeoutMs: number) {
    super(
      `${String(confirmed)} of the ${String(count)} replicas that "waitReplicas" asks for have confirmed it within ${String(timeoutMs)} ms`,
    );
  }
}

/** The server refuses the database that the connection names. */
export class WrongDatabaseError extends Error {
  override readonly name = 'WrongDatabaseError';

  constructor(database: number, reason: string) {
    super(
      `Database ${String(database)} cannot be selected: ${reason.replace(/\.?$/, '.')} Nothing is sent, for it would go to another database. Name one that the server has and that this user may SELECT, at the end of "url" or as "db" of the connection.`,
    );
  }
}

export function classifyFailure(error: unknown): SendFailure {
  if (!types.isNativeError(error)) return 'unknown';
  if (error instanceof WrongDatabaseError) return 'misconfigured';
  if (error instanceof TooFewReplicasError) return 'unreplicated';
  if (error instanceof NotSentError) return 'not_executed';
  if (isErrorReply(error)) {
    const code = replyCode(error.message);
    return code === 'ERR' ? classifyPlain(error.message) : (BY_CODE[code] ?? 'unknown');
  }
  // Whatever ioredis rejects because it may not queue was never sent. Its other errors may come after
  // the send, also "Connection is closed." and those that tell of a redirection.
  return error.message.includes('enableOfflineQueue options is false') ? 'not_executed' : 'unknown';
}

/** Of `ERR`, which stands before everything that has no code of its own: what stays so until somebody mends it. */
const STAYS =
  /^ERR (?:un(?:known|supported) (?:sub)?command|wrong number of arguments|syntax error|invalid (?:password|DB index)|Client sent AUTH|AUTH <password>|DB index is out of range|operation not permitted|The user executing the script|Error compiling script)|user_script/i;

/** Redis kills a script only as long as it has written nothing. */
const KILLED = /Script killed by user/i;

/** What a proxy says of a server behind it tells nothing of the command. */
function classifyPlain(message: string): SendFailure {
  if (KILLED.test(message)) return 'not_executed';
  return STAYS.test(message) ? 'misconfigured' : 'unknown';
}

/** What the server itself answered with. */
type ErrorReply = Error & { readonly name: 'ReplyError' };

/** Whether the server itself answered with this error. By name: the class is ioredis' own. */
export function isErrorReply(error: unknown): error is ErrorReply {
  return types.isNativeError(error) && error.name === 'ReplyError';
}

/** The first word of an error reply, also of one that stopped a script. */
export function replyCode(message: string): string {
  if (message.includes('max number of clients')) return 'TRYAGAIN';
  // Before Redis 7, what stops a script comes as "ERR Error running script (…): @user_script: 5: -OOM …".
  const inScript = /^ERR Error running script .*@user_script: ?\d+: -?([A-Z]+) /s.exec(message);
  return inScript?.[1] ?? message.split(' ', 1)[0] ?? '';
}

/** Whether another server of the cluster has to be asked. */
export function isRedirection(error: unknown): error is ErrorReply {
  const code = isErrorReply(error) ? replyCode(error.message) : '';
  return code === 'MOVED' || code === 'ASK';
}

const REMEDIES: Readonly<Record<string, string>> = {
  WRONGTYPE: 'Other data stands under the key prefix: choose another keyPrefix.',
  UNKNOWNRECORD:
    'Another version of this library, or other software, wrote it: choose another keyPrefix, or update every instance.',
  NOAUTH: 'Give the connection a password.',
  WRONGPASS: 'Check the user name and the password.',
  NOPERM:
    'The user needs EVALSHA, EVAL, TIME, GETRANGE, GET, SET and PEXPIREAT on the keys of the key prefix, WAIT for waitReplicas, SCAN for the reconciler, and should have INFO.',
  OOM: 'Raise maxmemory.',
};

/** What the parsers of ioredis 5 and 6 say of bytes that are none of Redis'. */
const FOREIGN = /^(?:Protocol error, got|Unknown RESP type)/;

/** Whether something answers there that is no Redis. */
export function isForeign(error: unknown): boolean {
  return types.isNativeError(error) && FOREIGN.test(error.message);
}

/** The failure in words. Never the error itself: ioredis adds the command's arguments to it, tokens and bodies. */
export function describeFailure(error: unknown): string {
  if (!types.isNativeError(error)) return String(error);
  const text = error.message.replace(/, with args beginning with.*/s, '');
  const reason = text === '' ? errorCode(error) : text;
  if (isForeign(error)) {
    return `What answers there does not speak the protocol of Redis (${reason.replace(/\. Please report this\.$/, '')}). Check host and port: they lead to another server, one of HTTP for example, or to the TLS port of Redis, which wants rediss://.`;
  }
  const remedy = isErrorReply(error) ? REMEDIES[replyCode(error.message)] : undefined;
  return remedy === undefined ? reason : `${reason.replace(/\.?$/, '.')} ${remedy}`;
}

/** A failed connection to a name with several addresses is an AggregateError without a message. */
function errorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
