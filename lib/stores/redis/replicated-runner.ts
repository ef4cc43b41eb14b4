import type { ReplicatedClient, ScriptArgument } from './binary-client.js';
import { ConnectionWatch } from './connection-watch.js';
import { classifyFailure, replyCode, TooFewReplicasError } from './error-classification.js';
import type { LuaScript } from './lua-scripts.js';
import type { WaitReplicas } from './redis-store-options.js';
import { Revival } from './revival.js';
import { kindOf, type ScriptReply } from './script-reply.js';
import type { ArgumentSource, ReplyReader } from './script-runner.js';
import { sendWithinBudget, type Sending } from './send-within-budget.js';
import { SilenceWatch } from './silence-watch.js';

interface Call {
  readonly script: LuaScript;
  readonly key: string;
  readonly args: readonly ScriptArgument[];
  /** By its text, for a server that has forgotten the SHA-1. */
  readonly isByText: boolean;
}

interface QueuedCall extends Call {
  readonly resolve: (reply: ScriptReply) => void;
  readonly reject: (error: unknown) => void;
}

/** How long the connection may be silent when no WAIT blocks it. */
const SILENCE_MS = 1_000;

/** What the replies say that wrote nothing: there is nothing to wait for. */
const WITHOUT_WRITE = new Set([
  ...['in_progress', 'abandoned', 'completed', 'failed', 'mismatch', 'stale_begin', 'late'],
  ...['superseded', 'lost', 'gone'],
]);

/**
 * Runs scripts, and waits until enough replicas have what they wrote.
 *
 * WAIT speaks only of what its own connection wrote, and blocks that connection: so there is one besides
 * that for everything else, script and WAIT go out together, and what comes meanwhile shares the next WAIT.
 */
export class ReplicatedRunner {
  private readonly connection: ConnectionWatch;
  private readonly revival: Revival;
  private queue: QueuedCall[] = [];
  private isSending = false;

  /** @param client - nobody else's; it must not send again by itself after a reconnect, a WAIT without its script say. */
  constructor(
    private readonly client: ReplicatedClient,
    readonly required: WaitReplicas,
  ) {
    client.on('error', () => undefined);
    const silence = new SilenceWatch(client, SILENCE_MS + required.timeoutMs);
    this.connection = new ConnectionWatch(client, true, silence);
    this.revival = new Revival(client);
  }

  run<Result>(
    script: LuaScript,
    key: string,
    args: ArgumentSource,
    timeoutMs: number,
    read: ReplyReader<Result>,
  ): Promise<Result> {
    const prepare = () => {
      const call = { script, key, args: args(), isByText: false };
      return { send: (sending: Sending) => this.send(call, sending) };
    };
    return sendWithinBudget(this.connection, timeoutMs, prepare, read);
  }

  close(): void {
    this.connection.close();
    this.revival.stop();
    this.client.disconnect();
  }

  private async send(call: Call, sending: Sending): Promise<ScriptReply> {
    try {
      return await this.enqueue(call);
    } catch (error) {
      if (!sending.isUnderWay) throw error;
      if (classifyFailure(error) === 'script_missing') {
        return this.enqueue({ ...call, isByText: true });
      }
      if (!isRedirection(error)) throw error;
      // A cluster follows a redirection, and learns from it, only without the WAIT; then it is sent again.
      await this.sendAlone(call);
      throw new Error(
        'It was executed where it was redirected to, and no replica was waited for.',
        {
          cause: error,
        },
      );
    }
  }

  private sendAlone({ script, key, args }: Call): Promise<unknown> {
    return this.client.evalBuffer(script.text, 1, key, ...args);
  }

  private enqueue(call: Call): Promise<ScriptReply> {
    return new Promise((resolve, reject) => {
      this.queue.push({ ...call, resolve, reject });
      // Keys of a cluster may live on different nodes: each has a pipeline of its own there.
      if (this.client.isCluster === true) void this.sendTogether(this.queue.splice(0));
      else if (!this.isSending) void this.sendAll();
    });
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    // What is asked for in one turn of the event loop goes out together.
    await Promise.resolve();
    while (this.queue.length > 0) await this.sendTogether(this.queue.splice(0));
    this.isSending = false;
  }

  private async sendTogether(calls: readonly QueuedCall[]): Promise<void> {
    const pipeline = this.client.pipeline();
    for (const { script, key, args, isByText } of calls) {
      if (isByText) pipeline.evalBuffer(script.text, 1, key, ...args);
      else pipeline.evalshaBuffer(script.sha1, 1, key, ...args);
    }
    pipeline.wait(this.required.count, this.required.timeoutMs);
    try {
      const results = (await pipeline.exec()) ?? [];
      const [noAnswer, confirmed] = results[calls.length] ?? [];
      for (const [i, call] of calls.entries()) {
        const [error, reply] = results[i] ?? [new Error('The pipeline ended without a reply.')];
        if (error) call.reject(error);
        else this.settle(call, reply as ScriptReply, noAnswer ?? Number(confirmed));
      }
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }

  /** @param confirmed - how many replicas have it, or why nobody knows. */
  private settle(call: QueuedCall, reply: ScriptReply, confirmed: number | Error): void {
    const { count, timeoutMs } = this.required;
    if (WITHOUT_WRITE.has(kindOf(reply))) call.resolve(reply);
    else if (typeof confirmed !== 'number') call.reject(confirmed);
    else if (confirmed >= count) call.resolve(reply);
    else call.reject(new TooFewReplicasError(confirmed, count, timeoutMs));
  }
}

function isRedirection(error: unknown): boolean {
  const code = error instanceof Error ? replyCode(error.message) : '';
  return code === 'MOVED' || code === 'ASK';
}
