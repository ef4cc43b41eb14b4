import type { Fingerprint, Lease, RecordKey } from '../../core/record/record.js';
import { newOwnerToken, newProbeKey } from '../../core/record/record-key.js';
import type { Begin, IdempotencyStore } from '../../core/store/idempotency-store.js';
import { nodeClock } from '../../core/util/clock.js';
import { isDoneWithin } from '../../core/util/time.js';
import { error, ok, warning, type Finding } from './finding.js';

const TIMEOUT_MS = 2_000;
/** How long the records of the probe are kept. */
const KEPT_MS = 10_000;
const FINGERPRINT = 'doctor' as Fingerprint;
const OUTCOME = { header: 'doctor', body: Buffer.from('An outcome of the doctor.') };

/** Executes each step of the store, on two records of its own that expire soon. */
export class StepChecks {
  /** Random: no request can have them. */
  readonly finished = newProbeKey(nodeClock);
  readonly released = newProbeKey(nodeClock);

  /** @param pushRemedy - what notifications require of the server. */
  constructor(
    private readonly store: IdempotencyStore,
    private readonly pushRemedy: string,
  ) {}

  /** @param describe - the text of an error. */
  async run(describe: (error: unknown) => string): Promise<Finding[]> {
    const notified = await this.listen();
    try {
      await this.finish();
      await this.release();
    } catch (failure) {
      return [error('steps', describe(failure))];
    }
    return [
      ok(
        'steps',
        'begin, extend, inspect, complete, replay and release were executed on records of the doctor.',
      ),
      (await notified?.())
        ? ok('push', 'A waiting duplicate is notified of the end of an operation.')
        : warning(
            'push',
            `A waiting duplicate is not notified of the end of an operation: it polls. ${this.pushRemedy}`,
          ),
    ];
  }

  /** @returns whether the notification arrives. */
  private async listen(): Promise<(() => Promise<boolean>) | undefined> {
    let arrived: () => void = () => undefined;
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const command = { timeoutMs: TIMEOUT_MS };
    const watching = this.store.watch(this.finished, arrived, command);
    const stop = await watching.catch(() => undefined);
    if (stop === undefined) return undefined;
    return async () => {
      const isNotified = await isDoneWithin(TIMEOUT_MS, arrival, nodeClock);
      stop();
      return isNotified;
    };
  }

  private async finish(): Promise<void> {
    const { store } = this;
    const lease = await this.begin(this.finished);
    const timing = { leaseMs: KEPT_MS, recordRetentionMs: KEPT_MS, timeoutMs: TIMEOUT_MS };
    expectKind('extend', await store.extend(lease, timing), 'ok');
    const found = await store.inspect(this.finished, { timeoutMs: TIMEOUT_MS });
    if (found?.state !== 'in_progress') throw unexpected('inspect', found?.state);
    const completed = await store.complete(lease, {
      state: 'completed',
      outcome: OUTCOME,
      retentionMs: KEPT_MS,
      fingerprint: FINGERPRINT,
      whenGone: 'report',
      notify: true,
      timeoutMs: TIMEOUT_MS,
    });
    expectKind('complete', completed, 'ok');
    const replay = await store.begin(beginOf(this.finished));
    const isReplay = replay.kind === 'completed' && OUTCOME.body.equals(replay.outcome.body);
    if (!isReplay) throw unexpected('begin', replay.kind);
  }

  private async release(): Promise<void> {
    const lease = await this.begin(this.released);
    const command = { tombstoneMs: 1, timeoutMs: TIMEOUT_MS };
    expectKind('release', await this.store.release(lease, command), 'ok');
  }

  private async begin(recordKey: RecordKey): Promise<Lease> {
    const command = beginOf(recordKey);
    const reply = await this.store.begin(command);
    if (reply.kind !== 'acquired') throw unexpected('begin', reply.kind);
    return { recordKey, token: command.token, fence: reply.fence };
  }
}

function beginOf(recordKey: RecordKey): Begin {
  return {
    recordKey,
    token: newOwnerToken(nodeClock),
    fingerprint: FINGERPRINT,
    leaseMs: KEPT_MS,
    maxExecutionMs: KEPT_MS,
    recordRetentionMs: KEPT_MS,
    notAfter: 0,
    onExpiredLease: 'deny',
    timeoutMs: TIMEOUT_MS,
  };
}

function expectKind(step: string, reply: { readonly kind: string }, kind: string): void {
  if (reply.kind !== kind) throw unexpected(step, reply.kind);
}

function unexpected(step: string, found: string | undefined): Error {
  return new Error(
    `The reply to ${step} was ${found ?? 'that there is no record'}: the server does not keep what it confirms. Does the connection always lead to the same primary?`,
  );
}
