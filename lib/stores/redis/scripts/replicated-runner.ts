import { hasCode } from '../../../core/util/errors.js';
import { newNonce } from '../../../core/util/nonce.js';
import type {
  BinaryRedisClient,
  ReplicatedClient,
  ScriptArgument,
} from '../ioredis/client-types.js';
import { ConnectionState } from '../ioredis/connection-state.js';
import {
  classifyFailure,
  isRedirection,
  TooFewReplicasError,
} from '../ioredis/error-classification.js';
import { ReconnectOnEnd, CorkedWrites } from '../ioredis/own-connection.js';
import type { WaitReplicas } from '../ioredis/redis-store-options.js';
import { checkDatabaseOf, databaseOf } from '../ioredis/selected-database.js';
import { StallDetector } from '../ioredis/stall-detector.js';
import { listenToNodes, listenToSockets } from '../ioredis/stream-errors.js';
import type { LuaScript } from './lua-scripts.js';
import { isReplyTo, kindOf, type ScriptReply } from './replies.js';
import { ReplyOrder, type MismatchListener } from './reply-order.js';
import { ClusterLinks, type ScriptLink, type ScriptLinks } from './script-links.js';
import type { ArgumentSource, ReplyReader, ScriptForm } from './script-runner.js';
import { sendUntilDeadline, type Sending, type Transmission } from './send-until-deadline.js';

interface ScriptRequest {
  readonly script: LuaScript;
  readonly key: string;
  readonly args: readonly ScriptArgument[];
}

interface QueuedCommand extends ScriptRequest {
  /** Sends the text, for a server that does not have the SHA-1. */
  readonly isByText: boolean;
  readonly resolve: (reply: ScriptReply) => void;
  readonly reject: (error: unknown) => void;
}

/** How long the connection may stall, apart from WAIT. */
const STALL_TIMEOUT_MS = 1_000;

/** Kinds of replies of scripts that wrote nothing: no WAIT required. */
const WITHOUT_WRITE = new Set([
  ...['in_progress', 'abandoned', 'completed', 'failed', 'mismatch', 'stale_begin', 'late'],
  ...['superseded', 'lost', 'gone'],
]);

/**
 * Runs scripts, and waits until enough replicas have their writes. WAIT covers only its own connection, and blocks it:
 * so this runner has its own. Script and WAIT are sent together; commands that arrive meanwhile share the next WAIT.
 */
export class ReplicatedRunner {
  private readonly connection: ConnectionState;
  private readonly reconnectOnEnd: ReconnectOnEnd;
  private readonly links: ScriptLinks;
  private readonly queues = new WeakMap<ScriptLink, ReplicatedQueue>();

  /** @param client - must not resend after a reconnect: a WAIT without its script would confirm nothing. */
  constructor(
    private readonly client: ReplicatedClient,
    readonly required: WaitReplicas,
    onMismatch: MismatchListener,
    private readonly form: ScriptForm,
  ) {
    client.on('error', () => undefined);
    const stallTimeoutMs = STALL_TIMEOUT_MS + required.timeoutMs;
    const stallDetector = new StallDetector(client, stallTimeoutMs);
    const database = checkDatabaseOf(client, true, stallDetector);
    this.connection = new ConnectionState(client, true, undefined, database);
    this.reconnectOnEnd = new ReconnectOnEnd(client);
    if (client.isCluster === true) {
      this.links = new ClusterLinks(client, onMismatch, stallTimeoutMs);
    } else {
      const link = {
        client,
        keyPrefix: '',
        order: new ReplyOrder(client, onMismatch),
        stallDetector,
      };
      this.links = { linkOf: () => link };
    }
  }

  run<Result>(
    script: LuaScript,
    key: string,
    args: ArgumentSource,
    timeoutMs: number,
    read: ReplyReader<Result>,
  ): Promise<Result> {
    const prepare = () => new ReplicatedCommand(this, this.form, { script, key, args: args() });
    return sendUntilDeadline(this.connection, timeoutMs, prepare, read);
  }

  close(): void {
    this.connection.close();
    this.reconnectOnEnd.stop();
    this.client.disconnect();
  }

  /** @internal */
  linkOf(key: string): ScriptLink {
    return this.links.linkOf(key);
  }

  /** @internal */
  redirect(from: ScriptLink, redirection: Error): ScriptLink | undefined {
    return this.links.redirect?.(from, redirection);
  }

  /** @internal */
  enqueue(link: ScriptLink, call: ScriptRequest, isByText: boolean): Promise<ScriptReply> {
    let queue = this.queues.get(link);
    if (queue === undefined) {
      queue = new ReplicatedQueue(link, this.required);
      this.queues.set(link, queue);
    }
    return queue.enqueue(call, isByText);
  }
}

/** The cluster follows a redirection without the WAIT; then the command is sent again. */
async function follow(
  { client, order }: ScriptLink,
  { script, key, args }: ScriptRequest,
  redirection: unknown,
): Promise<never> {
  const nonce = newNonce();
  const reply = await client.evalBuffer(script.text, 1, key, nonce, ...args);
  if (!isReplyTo(nonce, reply)) throw order.broken();
  throw new Error('The command was executed after a redirection, without waiting for replicas.', {
    cause: redirection,
  });
}

class ReplicatedCommand implements Transmission<ScriptReply> {
  order: ReplyOrder | undefined;

  constructor(
    private readonly runner: ReplicatedRunner,
    private readonly form: ScriptForm,
    private readonly request: ScriptRequest,
  ) {}

  async send(sending: Sending): Promise<ScriptReply> {
    const { runner, form, request } = this;
    const call = { ...request, script: form.of(request.script) };
    this.order = undefined;
    const link = runner.linkOf(call.key);
    this.order = link.order;
    try {
      return await runner.enqueue(link, call, false);
    } catch (error) {
      if (!sending.isInFlight) throw error;
      if (classifyFailure(error) === 'script_missing') return runner.enqueue(link, call, true);
      const next = isRedirection(error) ? runner.redirect(link, error) : undefined;
      if (next === undefined) throw error;
      this.order = next.order;
      return next.isRouted === true ? follow(next, call, error) : runner.enqueue(next, call, true);
    }
  }

  failed(error: unknown): void {
    this.form.failed(error);
  }

  /** `inStep` has rejected the replies of other commands. */
  isOwn(_reply: unknown): _reply is ScriptReply {
    return true;
  }
}

/** The queue of one connection, on which one WAIT follows the other. */
class ReplicatedQueue {
  private readonly corkedWrites: CorkedWrites;
  private queue: QueuedCommand[] = [];
  private isSending = false;

  constructor(
    private readonly link: ScriptLink,
    private readonly required: WaitReplicas,
  ) {
    this.corkedWrites = new CorkedWrites(link.client);
  }

  enqueue(call: ScriptRequest, isByText: boolean): Promise<ScriptReply> {
    return new Promise((resolve, reject) => {
      this.queue.push({ ...call, isByText, resolve, reject });
      if (!this.isSending) void this.sendAll();
    });
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    // Commands of one event loop iteration are sent together.
    await Promise.resolve();
    while (this.queue.length > 0) await this.sendTogether(this.queue.splice(0));
    this.isSending = false;
  }

  private async sendTogether(calls: readonly QueuedCommand[]): Promise<void> {
    const { client, keyPrefix, stallDetector } = this.link;
    const { count, timeoutMs } = this.required;
    stallDetector?.sent();
    try {
      this.corkedWrites.cork();
      const replies = calls.map(({ script, key, args, isByText }) => {
        const nonce = newNonce();
        const ownArgs = [keyPrefix + key, nonce, ...args];
        const sent = isByText
          ? client.evalBuffer(script.text, 1, ...ownArgs)
          : client.evalshaBuffer(script.sha1, 1, ...ownArgs);
        return this.inStep(sent, (reply) => isReplyTo(nonce, reply));
      });
      // A script's reply is never a number: a number is the reply of a WAIT.
      const waited = this.inStep(client.wait(count, timeoutMs), isCount);
      const [confirmed, ...results] = await Promise.allSettled([waited, ...replies]);
      const mismatch = results.find(isMismatch) ?? confirmed;
      calls.forEach((call, i) => {
        const result = results[i];
        if (result?.status === 'fulfilled')
          this.settle(call, result.value as ScriptReply, mismatch);
        else call.reject(result?.reason);
      });
    } catch (error) {
      for (const { reject } of calls) reject(error);
    } finally {
      stallDetector?.settled();
    }
  }

  /** Checks each reply at once: if one is missing, the last of them never arrives. */
  private async inStep(sent: Promise<unknown>, isOwn: (reply: unknown) => boolean) {
    const reply = await sent;
    if (!isOwn(reply)) throw this.link.order.broken();
    return reply;
  }

  /** @param waited - how many replicas confirmed the write, or why it is unknown. */
  private settle(
    call: QueuedCommand,
    reply: ScriptReply,
    waited: PromiseSettledResult<unknown>,
  ): void {
    const { count, timeoutMs } = this.required;
    if (WITHOUT_WRITE.has(kindOf(reply))) call.resolve(reply);
    else if (waited.status === 'rejected') call.reject(waited.reason);
    else if (Number(waited.value) >= count) call.resolve(reply);
    else call.reject(new TooFewReplicasError(Number(waited.value), count, timeoutMs));
  }
}

function isMismatch(result: PromiseSettledResult<unknown>): boolean {
  return (
    result.status === 'rejected' && hasCode(result.reason, 'idempotency_store_reply_mismatched')
  );
}

/** A client may be set to return numbers as strings. */
function isCount(reply: unknown): boolean {
  return typeof reply === 'number' || (typeof reply === 'string' && /^\d+$/.test(reply));
}

const NEVER_AGAIN = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // No bytes arrive during a WAIT.
  socketTimeout: undefined,
};

/** @returns a duplicate of the connection of `client`, for scripts followed by WAIT. */
export function openReplicated(client: BinaryRedisClient): ReplicatedClient {
  if (client.isCluster !== true)
    return listenToSockets(client.duplicate({ ...NEVER_AGAIN, db: databaseOf(client) }));
  // ioredis 5 would replace all of `redisOptions`.
  const redisOptions = { ...client.options?.redisOptions, ...NEVER_AGAIN };
  return listenToNodes(client.duplicate([], { enableAutoPipelining: false, redisOptions }));
}
