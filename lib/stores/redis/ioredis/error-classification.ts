import { types } from 'node:util';

/** What the failure of one attempt says about the command. */
export type SendFailure =
  /** Not executed; a retry may succeed soon. */
  | 'not_executed'
  /** Not executed, and a retry would fail until the server has resources again. */
  | 'rejected'
  /** It may have been executed, or may still be. */
  | 'unknown'
  /** Executed, but too few replicas confirmed it: a failover may lose it. */
  | 'unreplicated'
  /** Not executed, and a retry would fail until the configuration is fixed. */
  | 'misconfigured'
  /** The server does not have a script with this SHA-1. */
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

/** No connection to the server that has the record. */
export class NotSentError extends Error {
  override readonly name = 'NotSentError';

  constructor() {
    super('no connection to the node that has the record');
  }
}

export class TooFewReplicasError extends Error {
  override readonly name = 'TooFewReplicasError';

  constructor(confirmed: number, count: number, timeoutMs: number) {
    super(
      `${String(confirmed)} of the ${String(count)} replicas that "waitReplicas" requires confirmed the write within ${String(timeoutMs)} ms`,
    );
  }
}

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

/** What an operating system says of a connection that the other side has ended. */
const ENDS = ['ECONNRESET', 'EPIPE'] as const;

/** Whether the error says only that the connection has ended, and not why. */
export function isEnd(error: unknown): boolean {
  return types.isNativeError(error) && 'code' in error && ENDS.some((code) => code === error.code);
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
  // ioredis never sent a command that it rejects for lack of an offline queue. Its other errors may follow a send, also
  // "Connection is closed." and those of redirections.
  return error.message.includes('enableOfflineQueue options is false') ? 'not_executed' : 'unknown';
}

/** Replies with the generic code `ERR` that persist until the configuration is fixed. */
const STAYS =
  /^ERR (?:un(?:known|supported) (?:sub)?command|wrong number of arguments|syntax error|invalid (?:password|DB index)|Client sent AUTH|AUTH <password>|DB index is out of range|operation not permitted|Error compiling script)|user_script/i;

/** Redis kills a script only before its first write. */
const KILLED = /Script killed by user/i;

/** A proxy's error about its server says nothing about the command: unknown. */
function classifyPlain(message: string): SendFailure {
  if (KILLED.test(message) || WITHOUT_FLAGS.test(message)) return 'not_executed';
  return STAYS.test(message) ? 'misconfigured' : 'unknown';
}

/** Of Redis 6.2, and of a server that has flags, but not this one. */
const WITHOUT_FLAGS = /Error compiling script.* near '#'|in script shebang/i;

/** Whether the server did not compile a script because of its flags. Without them, it would. */
export function isFlagsRejection(error: unknown): boolean {
  return isErrorReply(error) && WITHOUT_FLAGS.test(error.message);
}

type ErrorReply = Error & { readonly name: 'ReplyError' };

/** Whether the server replied this error. Compared by name: the class belongs to ioredis. */
export function isErrorReply(error: unknown): error is ErrorReply {
  return types.isNativeError(error) && error.name === 'ReplyError';
}

/** What servers say of a command or a key within a script that the user may not use. */
const DENIED_IN_SCRIPT = /The user executing the script|ACL failure in script/i;

/** The first word of an error reply, also of one that aborted a script. */
export function replyCode(message: string): string {
  if (DENIED_IN_SCRIPT.test(message)) return 'NOPERM';
  if (message.includes('max number of clients')) return 'TRYAGAIN';
  // Before Redis 7, an error inside a script is "ERR Error running script (…): @user_script: 5: -OOM …".
  const inScript = /^ERR Error running script .*@user_script: ?\d+: -?([A-Z]+) /s.exec(message);
  return inScript?.[1] ?? message.split(' ', 1)[0] ?? '';
}

export function isRedirection(error: unknown): error is ErrorReply {
  const code = isErrorReply(error) ? replyCode(error.message) : '';
  return code === 'MOVED' || code === 'ASK';
}

const REMEDIES: Readonly<Record<string, string>> = {
  WRONGTYPE: 'Other data is stored under the key prefix. Choose another keyPrefix.',
  UNKNOWNRECORD:
    'Another version of this library, or other software, wrote the record. Choose another keyPrefix, or update every instance.',
  NOAUTH: 'Set the password of the connection.',
  WRONGPASS: 'Check the user name and the password.',
  NOPERM:
    'The user requires EVALSHA, EVAL, TIME, GETRANGE, GET, SET and PEXPIREAT on the keys of the key prefix, WAIT for waitReplicas, SCAN for the reconciler, and should have INFO, and SETRANGE, RENAME and UNLINK for large outcomes.',
  OOM: 'Raise maxmemory.',
};

/** Errors of the parsers of ioredis 5 and 6 for bytes that are not the Redis protocol. */
const FOREIGN = /^(?:Protocol error, got|Unknown RESP type)/;

/** Whether the server does not speak the Redis protocol. */
export function isForeign(error: unknown): boolean {
  return types.isNativeError(error) && FOREIGN.test(error.message);
}

/** The failure as text. Never the error itself: ioredis adds the command's arguments, with tokens and bodies. */
export function describeFailure(error: unknown): string {
  if (!types.isNativeError(error)) return String(error);
  const { reason: tlsReason } = error as { readonly reason?: unknown };
  // OpenSSL's message names lines of its own source.
  const text =
    typeof tlsReason === 'string' && error.message.includes('SSL routines')
      ? `TLS: ${tlsReason}`
      : error.message.replace(/, with args beginning with.*/s, '');
  const reason = text === '' ? errorCode(error) : text;
  if (isForeign(error)) {
    return `The server does not speak the Redis protocol (${reason.replace(/\. Please report this\.$/, '')}). Check host and port: they may belong to another server, such as an HTTP server, or to the TLS port of Redis, which requires rediss://.`;
  }
  const remedy = isErrorReply(error) ? REMEDIES[replyCode(error.message)] : tlsRemedyOf(error);
  return remedy === undefined ? reason : `${reason.replace(/\.?$/, '.')} ${remedy}`;
}

const CLIENT_CERTIFICATE =
  'The server requires a client certificate that it trusts: connection: { tls: { cert, key } }.';
const AUTHORITY =
  "Pass the authority that signed the server's certificate: connection: { tls: { ca } }.";

const TLS_REMEDIES: readonly (readonly [pattern: RegExp, remedy: string])[] = [
  [
    /alert (?:certificate required|bad certificate|unknown ca|handshake failure)/,
    CLIENT_CERTIFICATE,
  ],
  [/wrong version number|packet length too long/, 'Does this port not speak TLS? Use redis://.'],
  [/^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/, AUTHORITY],
  [/^CERT_HAS_EXPIRED$/, "Renew the server's certificate."],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'Connect to a name of the certificate, or set connection: { tls: { servername } }.',
  ],
];

function tlsRemedyOf(error: Error): string | undefined {
  const { code, reason } = error as { readonly code?: unknown; readonly reason?: unknown };
  return TLS_REMEDIES.find(([pattern]) =>
    [code, reason].some((text) => typeof text === 'string' && pattern.test(text)),
  )?.[1];
}

/** A failed connection to a host name with several addresses is an AggregateError without a message. */
function errorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
