import type { FinalOutcome } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { unfinishedRetentionMs } from '../operation/options.js';
import type { Lease } from '../record/record.js';
import type { CompleteReply, ReleaseReply } from '../record/commands.js';
import type { TransactionalRecords } from '../store/transactional-records.js';
import { isDoneWithin, jitteredPause } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { checkedReply } from './checked-reply.js';

const PAUSE_MS = 50;
const PAUSE_MAX_MS = 1_000;
/** Shorter: a request is waiting, and the key may be free only briefly between two attempts. */
const PAUSE_WHILE_LOCKED_MAX_MS = 250;

/** Whose last command is sent: at least once, until the store replies. After the effect, every error is retried. */
interface Writer {
  readonly services: AttemptServices;
  readonly request: OperationRequest;
  readonly lease: Lease;
  /** Anew for each command that is sent. */
  readonly noteOfEnd: string | undefined;
}

/**
 * @param giveUpAt - monotonic.
 * @param now - monotonic.
 * @returns the reply, or `undefined` when there was none until then.
 */
export function sendComplete(
  writer: Writer,
  { state, outcome, retentionMs }: FinalOutcome,
  giveUpAt: number,
  now?: number,
): Promise<CompleteReply | undefined> {
  const { fingerprint, options } = writer.request;
  const notify = options.duplicates.mode === 'wait';
  const send = (timeoutMs: number) =>
    writer.services.store.complete(writer.lease, {
      state,
      outcome,
      retentionMs,
      fingerprint,
      whenGone: 'restore',
      note: writer.noteOfEnd,
      notify,
      timeoutMs,
    });
  return untilReplied(writer, 'complete', giveUpAt, send, now);
}

/**
 * Sends `complete` until no attempt holds the record: gets its outcome or, if it was released, stores this success.
 */
export async function completeOnceFree(
  writer: Writer,
  final: FinalOutcome,
  giveUpAt: number,
): Promise<CompleteReply | undefined> {
  const { clock } = writer.services;
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_WHILE_LOCKED_MAX_MS)) {
    const reply = await sendComplete(writer, final, giveUpAt);
    const isLocked = reply?.kind === 'lost' && reply.state === 'in_progress';
    const leftMs = giveUpAt - clock.now();
    if (!isLocked || leftMs <= 0 || isShutdownOver(writer)) return reply;
    await jitteredPause(Math.min(pauseMs, leftMs), clock);
  }
}

/** As {@link sendComplete}. */
export function sendRelease(writer: Writer, giveUpAt: number): Promise<ReleaseReply | undefined> {
  const { options } = writer.request;
  const tombstoneMs = unfinishedRetentionMs(options);
  const notify = options.duplicates.mode === 'wait';
  const send = (timeoutMs: number) =>
    writer.services.store.release(writer.lease, {
      tombstoneMs,
      note: writer.noteOfEnd,
      notify,
      timeoutMs,
    });
  return untilReplied(writer, 'release', giveUpAt, send);
}

/**
 * A commit without a reply may have happened. Once the lock of its transaction is released, sends the release: if the
 * record is finished, it was committed.
 * @returns the reply, or `undefined` when there was none until `giveUpAt` (monotonic).
 */
export async function commitOutcome(
  writer: Writer,
  records: TransactionalRecords,
  giveUpAt: number,
): Promise<ReleaseReply | undefined> {
  return (await isUnlocked(writer, records, giveUpAt)) ? sendRelease(writer, giveUpAt) : undefined;
}

/** Whether the transaction that locks the record ends at the server before `giveUpAt` (monotonic). */
export async function isUnlocked(
  writer: Writer,
  records: TransactionalRecords,
  giveUpAt: number,
): Promise<boolean> {
  const { clock, events } = writer.services;
  const { commandTimeout: commandTimeoutMs } = writer.request.options.storeErrors;
  do {
    const leftMs = Math.max(1, Math.ceil(giveUpAt - clock.now()));
    const timeoutMs = Math.min(commandTimeoutMs, leftMs);
    const ended = events.counted('transaction_ended', () =>
      records.ended(writer.lease, { timeoutMs }),
    );
    if (await isDoneWithin(timeoutMs, ended, clock)) return true;
    await jitteredPause(Math.min(PAUSE_WHILE_LOCKED_MAX_MS, leftMs), clock);
  } while (clock.now() < giveUpAt && !isShutdownOver(writer));
  return false;
}

function isShutdownOver({ services }: Writer): boolean {
  return services.attempts.shutdown.isOver;
}

async function untilReplied<Reply extends CompleteReply | ReleaseReply>(
  writer: Writer,
  command: 'complete' | 'release',
  giveUpAt: number,
  send: (timeoutMs: number) => Promise<Reply>,
  now?: number,
): Promise<Reply | undefined> {
  const { clock, events } = writer.services;
  const { counter } = events;
  const { commandTimeout: commandTimeoutMs } = writer.request.options.storeErrors;
  let sentAt = now ?? clock.now();
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)) {
    const timeoutMs = Math.ceil(Math.min(commandTimeoutMs, giveUpAt - sentAt));
    try {
      const reply = checkedReply(command, await send(Math.max(1, timeoutMs)));
      counter.commandReplied(command, sentAt);
      return reply;
    } catch (error) {
      counter.commandFailed(command, sentAt, error);
    }
    const leftMs = giveUpAt - clock.now();
    if (leftMs <= 0 || isShutdownOver(writer)) return undefined;
    await jitteredPause(Math.min(pauseMs, leftMs), clock);
    sentAt = clock.now();
  }
}
