import {
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { DelegatingStore } from 'nestjs-idempotency/store';
import type * as Store from 'nestjs-idempotency/store';
import type { Gate } from '../waiting/gate.js';

export type Step = 'begin' | 'extend' | 'complete' | 'release' | 'inspect';

/** What happens to a command on its way to the store and back. */
export type Fault = <Reply>(execute: () => Promise<Reply>) => Promise<Reply>;

/** The command never reaches the store, and the store says so. */
export const unavailable: Fault = () =>
  Promise.reject(new StoreUnavailableError('planned: unavailable'));

/** The store rejects the command, now and later. */
export const misconfigured: Fault = () =>
  Promise.reject(new StoreConfigurationError('planned: misconfigured'));

/** The command is executed, and the caller cannot know that. */
export const lostReply: Fault = async (execute) => {
  await execute();
  throw new StoreOutcomeUnknownError('planned: lost reply');
};

/** The command never reaches the store, and the caller cannot know that. */
export const lostRequest: Fault = () =>
  Promise.reject(new StoreOutcomeUnknownError('planned: lost request'));

/** The command waits at `gate` on its way to the store. */
export const heldRequest =
  (gate: Gate): Fault =>
  async (execute) => {
    await gate.pass();
    return execute();
  };

/** The command is executed, and its reply waits at `gate`. */
export const heldReply =
  (gate: Gate): Fault =>
  async (execute) => {
    const reply = await execute();
    await gate.pass();
    return reply;
  };

/** A command as it was sent; `at` is the sender's monotonic clock. */
export interface SentCommand {
  readonly step: Step;
  readonly at: number;
  /** The token and fence of begin, or of the lease. */
  readonly token: string | undefined;
  readonly fence: number | undefined;
  readonly command: Store.Begin | Store.Extend | Store.Complete | Store.Release | Store.Inspect;
}

/** A store between the engine and a real one: records every command, and applies the planned faults. */
export class FaultyStore extends DelegatingStore {
  readonly sent: SentCommand[] = [];
  closed = false;
  /** Whether it reports the end of watched records, as far as the real one does. */
  pushes = false;
  private readonly planned = new Map<Step, Fault[]>();
  private readonly standing = new Map<Step, Fault>();

  /** @param clock - of the sender. */
  constructor(
    inner: Store.IdempotencyStore,
    private readonly clock: { now(): number } = { now: () => performance.now() },
  ) {
    super(inner);
  }

  /** The next commands of this kind meet these faults, one each. */
  next(step: Step, ...faults: Fault[]): void {
    this.planned.set(step, [...(this.planned.get(step) ?? []), ...faults]);
  }

  /** All commands of these kinds meet the fault, until {@link heal}. */
  always(fault: Fault, ...steps: Step[]): void {
    for (const step of steps) this.standing.set(step, fault);
  }

  heal(): void {
    this.planned.clear();
    this.standing.clear();
  }

  /** The commands of one kind so far. */
  sentOf(step: Step): SentCommand[] {
    return this.sent.filter((command) => command.step === step);
  }

  override begin(command: Store.Begin) {
    return this.send('begin', command, command, () => super.begin(command));
  }

  override extend(lease: Store.Lease, command: Store.Extend) {
    return this.send('extend', command, lease, () => super.extend(lease, command));
  }

  override complete(lease: Store.Lease, command: Store.Complete) {
    return this.send('complete', command, lease, () => super.complete(lease, command));
  }

  override release(lease: Store.Lease, command: Store.Release) {
    return this.send('release', command, lease, () => super.release(lease, command));
  }

  override inspect(recordKey: Store.RecordKey, command: Store.Inspect) {
    return this.send('inspect', command, {}, () => super.inspect(recordKey, command));
  }

  override watch(...args: Parameters<DelegatingStore['watch']>) {
    return this.pushes ? super.watch(...args) : Promise.resolve(undefined);
  }

  override async close(observer?: Store.StoreObserver) {
    this.closed = true;
    await super.close(observer);
  }

  private send<Reply>(
    step: Step,
    command: SentCommand['command'],
    { token, fence }: Partial<Store.Lease>,
    execute: () => Promise<Reply>,
  ): Promise<Reply> {
    this.sent.push({ step, at: this.clock.now(), token, fence, command });
    const fault = this.planned.get(step)?.shift() ?? this.standing.get(step);
    return fault === undefined ? execute() : fault(execute);
  }
}
