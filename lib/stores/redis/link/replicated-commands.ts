import { hasCode } from '../../../core/errors/errors.js';
import type { Commands, WaitingCommands } from './commands.js';
import type { Arguments, Keys, ReplyReceiver, RequiredReplicas } from './redis-link.js';
import type { ReplyOrder } from './reply-order.js';
import { TooFewReplicasError } from './send-failure.js';

interface QueuedCommand {
  readonly send: (receiver: ReplyReceiver) => void;
  readonly receiver: ReplyReceiver;
}

/**
 * Waits until enough replicas have what the commands of one connection wrote. WAIT covers only its own connection, and
 * blocks it: so the link has its own. Commands and WAIT are sent together; those that arrive meanwhile share the next
 * WAIT.
 */
export class ReplicatedCommands implements Commands {
  private queue: QueuedCommand[] = [];
  private isSending = false;

  constructor(
    private readonly commands: WaitingCommands,
    private readonly required: RequiredReplicas,
  ) {}

  get order(): ReplyOrder {
    return this.commands.order;
  }

  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    const copy = [...args];
    this.enqueue((queued) => this.commands.evalsha(sha1, keys, copy, queued), receiver);
  }

  eval(text: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    const copy = [...args];
    this.enqueue((queued) => this.commands.eval(text, keys, copy, queued), receiver);
  }

  get(key: string, receiver: ReplyReceiver): void {
    this.enqueue((queued) => this.commands.get(key, queued), receiver);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number, receiver: ReplyReceiver): void {
    this.enqueue((queued) => this.commands.set(key, value, expiryMs, queued), receiver);
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    this.commands.scan(cursor, match, count, receiver);
  }

  info(receiver: ReplyReceiver): void {
    this.commands.info(receiver);
  }

  private enqueue(send: QueuedCommand['send'], receiver: ReplyReceiver): void {
    this.queue.push({ send, receiver });
    if (!this.isSending) void this.sendAll();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    // Commands of one event loop iteration are sent together.
    await Promise.resolve();
    while (this.queue.length > 0) await this.sendTogether(this.queue.splice(0));
    this.isSending = false;
  }

  private async sendTogether(queued: readonly QueuedCommand[]): Promise<void> {
    const { commands, order, required } = this;
    const { count, timeoutMs } = required;
    const replies = queued.map(({ send, receiver }) =>
      inStep(send, (reply) => receiver.isOwn(reply)),
    );
    // A script's reply is never a number: a number is the reply of a WAIT.
    const waited = inStep((receiver) => commands.wait(count, timeoutMs, receiver), isCount);
    const [confirmed, ...results] = await Promise.allSettled([waited, ...replies]);
    const unreplicated = this.unreplicated(results.find(isMismatch) ?? confirmed);
    queued.forEach(({ receiver }, i) => {
      const result = results[i];
      if (result?.status === 'fulfilled') receiver.onReply(result.value, order, unreplicated);
      else receiver.onError(result?.reason, order);
    });
  }

  /** @param waited - how many replicas confirmed the writes, or why it is unknown. */
  private unreplicated(waited: PromiseSettledResult<unknown>): unknown {
    const { count, timeoutMs } = this.required;
    if (waited.status === 'rejected') return waited.reason;
    const confirmed = Number(waited.value);
    return confirmed >= count ? undefined : new TooFewReplicasError(confirmed, count, timeoutMs);
  }
}

/** Checks each reply at once: if one is missing, the last of them never arrives. */
function inStep(
  send: (receiver: ReplyReceiver) => void,
  isOwn: (reply: unknown) => boolean,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    send({
      isOwn,
      onReply: (reply, order) => {
        if (isOwn(reply)) resolve(reply);
        else reject(order.broken());
      },
      onError: reject,
    });
  });
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
