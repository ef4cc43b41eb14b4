import { tracingChannel } from 'node:diagnostics_channel';
import { newNonce } from '../../../core/util/nonce.js';
import type { RedisArgument, ReplyReceiver } from '../link/redis-link.js';
import type { ReplyOrder } from '../link/reply-order.js';
import type { OwnRedisClient } from './client-types.js';
import { isErrorReply } from './error-classification.js';
import type { StallDetector } from '../link/stall-detector.js';

/** Receives the end of a command, once, while ioredis reads its input. Must not throw. */
type CommandReceiver = Pick<ReplyReceiver, 'onReply' | 'onError'>;

/** Replies with its argument, and requires no further permission. */
const TRIAL = 'return ARGV[1]';
/** No script has it: the reply is an error. */
const UNKNOWN_SHA1 = '0'.repeat(40);
/** Of a trial whose connection closes before the replies arrive. */
const MAX_TRIALS = 3;

/** Of ioredis ≥ 5.10. Commands that this library creates are not published on it. */
const TRACING = tracingChannel('ioredis:command');

/**
 * Sends commands of this library through `sendCommand` of ioredis, which accepts any object with the members that it
 * reads. That method is public, but not documented: it is used once a trial on the connection has succeeded, in which no
 * instrumentation took part, and while neither one has replaced it nor a subscriber receives the commands of ioredis.
 */
export class OwnCommands {
  private readonly keyPrefix: unknown;
  private verified: OwnRedisClient['sendCommand'];
  private trials = 0;

  /** @param stallDetector - notified of the end of each command. */
  constructor(
    private readonly client: OwnRedisClient,
    private readonly order: ReplyOrder,
    private readonly stallDetector: StallDetector,
  ) {
    this.keyPrefix = client.options?.keyPrefix ?? '';
    client.on('ready', () => {
      this.verify();
    });
  }

  /** Sends EVALSHA. @returns false if nothing was sent: send it with a method of the client. */
  evalsha(
    sha1: string,
    keys: readonly string[],
    args: readonly RedisArgument[],
    receiver: CommandReceiver,
  ): boolean {
    if (!this.isUsable) return false;
    const { order, stallDetector } = this;
    const prefix = this.keyPrefix as string;
    const first =
      keys.length === 1
        ? [sha1, '1', prefix + (keys[0] ?? '')]
        : [sha1, String(keys.length), ...keys.map((each) => prefix + each)];
    this.send(new OwnCommand('evalsha', first, args, receiver, order, stallDetector));
    return true;
  }

  /** Sends SET of a value in parts, which are copied once. @returns likewise. */
  set(key: string, parts: readonly Buffer[], expiryMs: number, receiver: CommandReceiver): boolean {
    if (!this.isUsable) return false;
    const { order, stallDetector } = this;
    const rest = [parts, 'PX', String(expiryMs)];
    const name = (this.keyPrefix as string) + key;
    this.send(new OwnCommand('set', [name], rest, receiver, order, stallDetector));
    return true;
  }

  private get isUsable(): boolean {
    const { client, verified } = this;
    return verified !== undefined && client.sendCommand === verified && !TRACING.hasSubscribers;
  }

  private verify(): void {
    const { client, order, keyPrefix, verified, trials } = this;
    const { sendCommand } = client;
    if (verified !== undefined || trials === MAX_TRIALS) return;
    if (sendCommand === undefined || typeof keyPrefix !== 'string') return;
    this.trials += 1;
    let hasFailed = false;
    const failing = {
      onReply: () => undefined,
      onError: (error: unknown) => {
        hasFailed = isErrorReply(error);
      },
    };
    const nonce = newNonce();
    const replying = {
      onReply: (reply: unknown) => {
        const isOnly = commands.every((command) => command.isUnobserved);
        if (hasFailed && isOnly && String(reply) === nonce) this.verified = sendCommand;
      },
      onError: () => undefined,
    };
    const depth = stackDepth();
    const commands = [
      new TrialCommand(depth, 'evalsha', [UNKNOWN_SHA1, '0'], [], failing, order),
      new TrialCommand(depth, 'eval', [TRIAL, '0'], [nonce], replying, order),
    ];
    for (const command of commands) {
      // An asynchronous instrumentation returns a promise of its own, which rejects with the error reply.
      Promise.resolve(this.send(command)).catch(ignore);
    }
  }

  private send(command: OwnCommand): unknown {
    try {
      return this.client.sendCommand?.(command);
    } catch (error) {
      this.verified = undefined;
      this.trials = MAX_TRIALS;
      command.reject(error);
      return undefined;
    }
  }
}

/**
 * A command with the members that ioredis 5 and 6 read. Their own `Command` has a promise, five closures and a
 * transformed reply, which cost more than all else that the client does for it. It has no `setTimeout`: with the option
 * `commandTimeout` the trial fails.
 */
class OwnCommand {
  /** Saves the check whether to publish it on the tracing channel. */
  readonly isTraced = true;
  private receiver: CommandReceiver | undefined;

  constructor(
    readonly name: string,
    private readonly first: readonly string[],
    /** Written while it is sent, and not copied. */
    private readonly rest: readonly (RedisArgument | readonly Buffer[])[],
    receiver: CommandReceiver,
    private readonly order: ReplyOrder,
    /** Undefined if it does not know of the command. */
    private readonly stallDetector?: StallDetector,
  ) {
    this.receiver = receiver;
  }

  /** ioredis adds them to the error of an error reply. */
  get args(): readonly unknown[] {
    return [...this.first, ...this.rest];
  }

  /** The version of the protocol, and how replies are mapped: neither changes those of scripts. */
  setReplyContext(): void {
    // Nothing to adapt.
  }

  toWritable(): string | Buffer {
    const { name, first, rest } = this;
    let chunks: Buffer[] | undefined;
    let text = `*${first.length + rest.length + 1}\r\n$${name.length}\r\n${name}`;
    for (const arg of first) text += lengthLine(byteLengthOf(arg)) + arg;
    for (const arg of rest) {
      text += lengthLine(byteLengthOf(arg));
      if (typeof arg === 'string') {
        text += arg;
      } else {
        (chunks ??= []).push(Buffer.from(text), ...(Buffer.isBuffer(arg) ? [arg] : arg));
        text = '';
      }
    }
    text += '\r\n';
    return chunks === undefined ? text : Buffer.concat([...chunks, Buffer.from(text)]);
  }

  resolve(reply: unknown): void {
    const { receiver } = this;
    if (receiver === undefined) return;
    this.receiver = undefined;
    this.stallDetector?.settled();
    receiver.onReply(reply, this.order);
  }

  reject(error: unknown): void {
    const { receiver } = this;
    if (receiver === undefined) return;
    this.receiver = undefined;
    this.stallDetector?.settled();
    receiver.onError(error, this.order);
  }
}

type Ends = Record<'resolve' | 'reject', (result: unknown) => void>;

/** From the function that measures them to `toWritable`: `send`, `sendCommand` and itself. */
const FRAMES_OF_SENDING = 3;
/** `sendCommand` returns it. */
const PROMISES_READ_BY_IOREDIS = 1;

/**
 * Notices what else takes part in its sending. However an instrumentation was put in, it calls the method of ioredis
 * from a function of its own, which is on the stack even while it has nothing to record, or learns from the command
 * itself when it ends.
 */
class TrialCommand extends OwnCommand {
  private isDirect = false;
  private promisesRead = 0;
  /** Bound, as those of a command of ioredis: an instrumentation calls them without the command. */
  private readonly bound: Ends;
  private readonly ended: Promise<unknown>;

  /** @param depth - of the stack where it is sent. */
  constructor(
    private readonly depth: unknown,
    ...command: ConstructorParameters<typeof OwnCommand>
  ) {
    super(...command);
    let promise: Ends = { resolve: ignore, reject: ignore };
    this.ended = new Promise((resolve, reject) => {
      promise = { resolve, reject };
    });
    this.ended.catch(ignore);
    this.bound = {
      resolve: (reply) => {
        super.resolve(reply);
        promise.resolve(reply);
      },
      reject: (error) => {
        super.reject(error);
        promise.reject(error);
      },
    };
    Object.assign(this, this.bound);
  }

  get isUnobserved(): boolean {
    const { bound, isDirect, promisesRead } = this;
    const isReplaced = Object.entries(bound).some(([name, own]) => Reflect.get(this, name) !== own);
    return isDirect && !isReplaced && promisesRead <= PROMISES_READ_BY_IOREDIS;
  }

  /** As that of a command of ioredis, it settles when the command ends. */
  get promise(): Promise<unknown> {
    this.promisesRead += 1;
    return this.ended;
  }

  override toWritable(): string | Buffer {
    this.isDirect = Number(stackDepth()) === Number(this.depth) + FRAMES_OF_SENDING;
    return super.toWritable();
  }
}

/** How many calls are running; something else where `Error` cannot be set to count them. */
function stackDepth(): unknown {
  const before: object = { prepareStackTrace: undefined, ...(Error as object) };
  try {
    setOnError({ stackTraceLimit: Infinity, prepareStackTrace: countCalls });
    return new Error().stack;
  } finally {
    setOnError(before);
  }
}

function countCalls(_error: unknown, calls: readonly unknown[]): number {
  return calls.length;
}

/** Without an error if it is frozen. */
function setOnError(settings: object): void {
  for (const [name, value] of Object.entries(settings)) Reflect.set(Error, name, value);
}

function ignore(): void {
  // The receiver of the command has the error.
}

const SHORT_LENGTHS = Array.from({ length: 512 }, (_, bytes) => `\r\n$${bytes}\r\n`);

/** What stands between one argument and the next. Made once for short ones: each text that is added costs bytes. */
function lengthLine(bytes: number): string {
  return SHORT_LENGTHS[bytes] ?? `\r\n$${bytes}\r\n`;
}

function byteLengthOf(arg: RedisArgument | readonly Buffer[]): number {
  if (typeof arg === 'string' || Buffer.isBuffer(arg)) return Buffer.byteLength(arg);
  return arg.reduce((sum, part) => sum + part.length, 0);
}
