import {
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyEngine,
  DEFAULT_LIMITS,
  Reconciliation,
} from '../../../test/support/internals/core.js';
import { CallTransport } from '../../../test/support/internals/call.js';
import { MessageTransport } from '../../../test/support/internals/message.js';
import { recordKeyOf } from '../../faults/extra-executions.js';
import { Random } from '../../../test/integration/differential/random.js';
import { ProcessClock, type Ticking } from './process-clock.js';
import { ABANDONED_AFTER_MS } from '../rules/record-rules.js';
import { RemoteStore } from './remote-store.js';
import type { SimulatedRequest } from './request.js';
import { CONTINUATION, INPUT, TIMERS, type Phase, type Scheduled } from './scheduler.js';
import type { World } from './world.js';

/** Where a process touches what is outside of it, and where it can die. */
const CONTACTS = ['command', 'reply', 'timer', 'random', 'effect', 'response'] as const;

export type Contact = (typeof CONTACTS)[number];

/** After how many contacts of a kind a process dies, at most. */
const LIFE: Record<Contact, number> = {
  command: 12,
  reply: 12,
  timer: 12,
  random: 2,
  effect: 4,
  response: 7,
};

const SHUTDOWN_TIMEOUT_MS = 1_000;

/** Events that the judge needs: an attempt has lost something, or takes something over. */
const REPORTS = new Set<IdempotencyEvent['type']>([
  'takeover',
  'unprotected',
  'lease_lost',
  'superseded',
  'outcome_diverged',
  'record_lost',
  'save_failed',
]);

/** One start of a process: an engine, and a clock of its own. */
export class SimulatedProcess implements Ticking {
  isAlive = true;
  isDraining = false;
  /** Until then it stands still, or computes. */
  busyUntil = -1;
  /** When it last was in trouble that may cost it a lease. */
  troubledAt = -Infinity;
  /** Requests that it has not answered. */
  readonly requests = new Set<SimulatedRequest>();
  /** Operations that run in it. */
  readonly operations = new Set<SimulatedRequest>();
  /** Attempts, by their events. */
  readonly attempts = { begun: 0, ended: 0 };
  readonly clock: ProcessClock;
  readonly store: RemoteStore;
  readonly engine: IdempotencyEngine;
  readonly calls: CallTransport;
  readonly messages: MessageTransport;
  private readonly random: Random;
  private death: { readonly contact: Contact; left: number } | undefined;

  constructor(
    readonly world: World,
    readonly slot: number,
    readonly name: string,
  ) {
    const { plan, faultRandom } = world;
    this.random = new Random(faultRandom.integer(0, 2 ** 32 - 1));
    const rate = 1 + (this.random.fraction() - 0.5) / 500;
    this.clock = new ProcessClock(this, rate, this.random.integer(0, 1_000_000));
    if (world.has('crash')) {
      const contact = faultRandom.pick(CONTACTS);
      this.death = { contact, left: faultRandom.integer(1, LIFE[contact]) };
    }
    const events = new IdempotencyEvents(undefined, this.clock);
    events.subscribe((event) => {
      this.emitted(event);
    });
    this.store = new RemoteStore(this);
    const limits = {
      ...DEFAULT_LIMITS,
      maxWaiters: plan.maxWaiters,
      // The episodes have one caller.
      maxWaitersPerKey: plan.maxWaiters,
      maxWaitersPerCaller: plan.maxWaiters,
      shutdownTimeout: SHUTDOWN_TIMEOUT_MS,
    };
    this.engine = new IdempotencyEngine(
      this.store,
      events,
      limits,
      undefined,
      undefined,
      this.clock,
    );
    const services = {
      get: () => {
        throw new Error('There are no services.');
      },
    };
    this.calls = new CallTransport(this.engine, services);
    this.messages = new MessageTransport(this.calls);
    this.messages['loading'] = Promise.resolve(world.rejections);
    if (plan.reconciles) this.reconcile(services);
  }

  time(): number {
    return Math.max(this.world.scheduler.now, this.busyUntil);
  }

  draw(): number {
    return this.random.fraction();
  }

  /** Something that the process does, or that reaches it, unless it stands still or has died. */
  post(at: number, phase: Phase, run: () => void): Scheduled {
    const { scheduler } = this.world;
    const event: Scheduled = scheduler.at(at, phase, () => {
      if (!this.isAlive) return;
      if (scheduler.now < this.busyUntil) {
        event.at = this.busyUntil;
        event.run = again;
        scheduler.push(event);
        return;
      }
      if (phase === TIMERS && this.contact('timer')) return;
      run();
    });
    const again = event.run!;
    return event;
  }

  /** Calls back after `ms` of the process' own time. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.post(this.time() + ms, TIMERS, resolve);
    });
  }

  /** Computes for `ms`: nothing else happens in it meanwhile, and whatever is due comes after it. */
  compute(ms: number): Promise<void> {
    this.pause(ms);
    return new Promise((resolve) => {
      this.post(this.busyUntil, CONTINUATION, resolve);
    });
  }

  /** What reaches it from outside. */
  receive(at: number, run: () => void): void {
    this.post(at, INPUT, run);
  }

  /** @returns whether the process has died, before this contact. Half of the deaths come right after it. */
  contact(contact: Contact): boolean {
    const { death } = this;
    if (!this.isAlive) return true;
    if (death?.contact !== contact || this.world.isHealed) return false;
    death.left -= 1;
    if (death.left > 0) return false;
    this.death = undefined;
    if (this.random.chance(0.5)) {
      this.world.scheduler.at(this.world.scheduler.now, TIMERS, () => {
        this.crash(`after ${contact}`);
      });
      return false;
    }
    this.crash(`before ${contact}`);
    return true;
  }

  /** From here on nothing of it reaches any other process. */
  crash(how: string): void {
    if (!this.isAlive) return;
    const { world } = this;
    world.fault('crash', this);
    world.coverage.count('crash points', how);
    this.die();
  }

  die(): void {
    const { world } = this;
    this.isAlive = false;
    world.history.add('end', this.name);
    world.deaths.set(this.name, world.scheduler.now);
    for (const server of world.servers) server.forget(this);
    for (const request of [...this.requests]) if (!request.isWritten) request.break();
    world.restart(this.slot);
  }

  /** Stands still: whatever reaches it meanwhile is read after it, its timers first. */
  pause(ms: number): void {
    this.busyUntil = Math.max(this.busyUntil, this.time() + ms);
    this.troubledAt = this.busyUntil;
  }

  /** As a service does on SIGTERM. */
  async drain(): Promise<void> {
    if (this.isDraining) return;
    this.isDraining = true;
    const { world } = this;
    const startedAt = this.time();
    world.rules.shutdowns.drains(this);
    const left = await this.engine.drain();
    if (!this.isAlive) return;
    world.rules.shutdowns.drained(this, left, startedAt, SHUTDOWN_TIMEOUT_MS);
    world.coverage.count('shutdowns', left === 0 ? 'empty' : 'given up');
    this.die();
  }

  private emitted(event: IdempotencyEvent): void {
    if (!this.isAlive) return;
    const { attempts, world } = this;
    const { type } = event;
    world.coverage.count('events', type);
    if (type === 'ended') {
      attempts.ended += 1;
      world.coverage.count('ends of attempts', event.how);
    }
    if (type === 'acquired' || type === 'takeover' || type === 'unprotected') attempts.begun += 1;
    world.rules.events.emitted(this, event);
    if (!REPORTS.has(type) || event.recordKey === undefined) return;
    const { fencingToken: fence } = event as { fencingToken: number };
    const recordKey = recordKeyOf(world.keyOf(event.recordKey));
    world.events.push({ type, recordKey, fence, worker: this.name, at: world.scheduler.now });
  }

  private reconcile(services: ConstructorParameters<typeof Reconciliation>[1]): void {
    const { world } = this;
    const options = { interval: 400, batchSize: 20, after: ABANDONED_AFTER_MS };
    const reconciliation = new Reconciliation(
      this.engine,
      services,
      (name) => world.recoverable(name),
      options,
      100,
    );
    const round = async () => {
      while (this.isAlive && !this.isDraining && !world.isOver) {
        await this.sleep(options.interval);
        const report = await reconciliation
          .round(() => this.isDraining || world.isOver)
          .catch(() => undefined);
        if (report === undefined) continue;
        for (const result of ['completed', 'released', 'overtaken', 'failed'] as const) {
          if (report[result] > 0) world.coverage.count('reconciled', result);
        }
      }
    };
    void round();
  }
}
