/** What the failure of one attempt says about the command. */
export type SendFailure =
  /** Not executed; a retry may succeed soon. */
  | 'not_executed'
  /** Not executed: the error names the server that has the key. */
  | 'redirected'
  /** Not executed: the server does not have a script with this SHA-1. */
  | 'script_missing'
  /** Not executed: the server does not know the flags of the script. */
  | 'flags_unknown'
  /** Not executed, and a retry would fail until the server has resources again. */
  | 'rejected'
  /** It may have been executed, or may still be. */
  | 'unknown'
  /** Executed, but too few replicas confirmed it: a failover may lose it. */
  | 'unreplicated'
  /** Not executed, and a retry would fail until the configuration is fixed. */
  | 'misconfigured';

export interface LinkFailure {
  readonly kind: SendFailure;
  /** For people, with the remedy if there is one. */
  readonly cause: string;
  /** Whether the server has replied it. */
  readonly isReply: boolean;
}

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

const BY_CODE: Readonly<Record<string, SendFailure>> = {
  NOSCRIPT: 'script_missing',

  MOVED: 'redirected',
  ASK: 'redirected',

  LOADING: 'not_executed',
  CLUSTERDOWN: 'not_executed',
  TRYAGAIN: 'not_executed',
  MASTERDOWN: 'not_executed',
  BUSY: 'not_executed',
  UNKILLABLE: 'not_executed',
  NOREPLICAS: 'not_executed',
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

/** What an error reply of the server says of its command, whatever the client. */
export function failureOfReply(message: string): LinkFailure {
  return { kind: kindOfReply(message), cause: describeReply(message), isReply: true };
}

/** Of an error that is no reply. */
export function failureOfClient(kind: SendFailure, cause: string): LinkFailure {
  return { kind, cause, isReply: false };
}

function kindOfReply(message: string): SendFailure {
  const code = replyCode(message);
  return code === 'ERR' ? kindOfPlain(message) : (BY_CODE[code] ?? 'unknown');
}

/** Replies with the generic code `ERR` that persist until the configuration is fixed. */
const STAYS =
  /^ERR (?:un(?:known|supported) (?:sub)?command|wrong number of arguments|syntax error|invalid (?:password|DB index)|Client sent AUTH|AUTH <password>|DB index is out of range|operation not permitted|Error compiling script)|user_script/i;

/** Redis kills a script only before its first write. */
const KILLED = /Script killed by user/i;

/** Of Redis 6.2, and of a server that has flags, but not this one. */
const WITHOUT_FLAGS = /Error compiling script.* near '#'|in script shebang/i;

/** A proxy's error about its server says nothing about the command: unknown. */
function kindOfPlain(message: string): SendFailure {
  if (WITHOUT_FLAGS.test(message)) return 'flags_unknown';
  if (KILLED.test(message)) return 'not_executed';
  return STAYS.test(message) ? 'misconfigured' : 'unknown';
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

const REMEDIES: Readonly<Record<string, string>> = {
  WRONGTYPE: 'Other data is stored under the key prefix. Choose another keyPrefix.',
  UNKNOWNRECORD:
    'Another version of this library, or other software, wrote the record. Choose another keyPrefix, or update every instance.',
  NOAUTH: 'Set the password of the connection.',
  WRONGPASS: 'Check the user name and the password.',
  NOPERM:
    'The user requires EVALSHA, EVAL, TIME, GETRANGE, GET, SET and PEXPIREAT on the keys of the key prefix, WAIT for waitReplicas, SCAN for the reconciler and for lists, and should have INFO, and SETRANGE, RENAME and UNLINK for large outcomes.',
  OOM: 'Raise maxmemory.',
};

function describeReply(message: string): string {
  return withRemedy(withoutArguments(message), REMEDIES[replyCode(message)]);
}

/** Of an unknown command, servers repeat the arguments. */
export function withoutArguments(message: string): string {
  return message.replace(/, with args beginning with.*/s, '');
}

export function withRemedy(reason: string, remedy: string | undefined): string {
  return remedy === undefined ? reason : `${reason.replace(/\.?$/, '.')} ${remedy}`;
}
