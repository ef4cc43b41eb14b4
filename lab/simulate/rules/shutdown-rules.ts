import type { SimulatedProcess } from '../world/simulated-process.js';
import { RuleBase, SLACK_MS } from './rule-base.js';

/** What a duplicate needs to notice that its process shuts down: a poll, and its reply. */
const WOKEN_MS = 60;

/** The pause between two checks of whether all has ended, and its jitter. */
const DRAIN_PAUSE_MS = 100;

/** Members of the engine that only it reads. */
interface Inner {
  readonly services: {
    readonly attempts: { readonly byKey: { readonly size: number }; readonly inProgress: number };
    readonly deadlines: { readonly count: number };
  };
  readonly duplicateWaiters: { readonly waiters: number };
}

/** What a shutdown waits for, and that nothing is left of requests that have ended. */
export class ShutdownRules extends RuleBase {
  drains(process: SimulatedProcess): void {
    this.world.scheduler.after(WOKEN_MS, () => {
      const waits = process.isAlive && [...process.engine.waiting()].length > 0;
      if (waits && this.isUntroubled(process)) {
        this.object('a duplicate waits though its process shuts down');
      }
    });
  }

  /** @param left - attempts that were given up. */
  drained(process: SimulatedProcess, left: number, startedAt: number, limitMs: number): void {
    const tookMs = process.time() - startedAt;
    if (tookMs > limitMs + DRAIN_PAUSE_MS && process.troubledAt < startedAt) {
      this.object(`a shutdown took ${Math.round(tookMs)} ms`);
    }
    if (left > 0 && tookMs < limitMs - SLACK_MS) {
      this.object(`a shutdown gave up after ${Math.round(tookMs)} ms`);
    }
    if (left === 0 && process.operations.size > 0) {
      this.object('a shutdown did not wait for a running operation');
    }
  }

  /** At the end of an episode. */
  checkLeaks(): void {
    for (const process of this.world.living()) this.checkProcess(process);
    for (const { listeners, watching } of this.world.servers) {
      if (listeners > watching) {
        this.object(`a store has ${listeners} listeners for ${watching} watched keys`);
      }
    }
  }

  private checkProcess({ name, engine, store, clock, attempts }: SimulatedProcess): void {
    const inner = engine as unknown as Inner;
    const left = {
      attempts: [...engine.running()].length,
      'begins in progress': inner.services.attempts.inProgress,
      'attempts by key': inner.services.attempts.byKey.size,
      'waiting duplicates': [...engine.waiting()].length,
      'counted duplicates': inner.duplicateWaiters.waiters,
      deadlines: inner.services.deadlines.count,
      // Deadlines keep one, which need not be cleared.
      timers: Math.max(0, clock.timers.size - 1),
      commands: store.pending,
      subscriptions: store.subscriptions,
    };
    for (const [what, count] of Object.entries(left)) {
      if (count !== 0) this.object(`${name} still has ${count} ${what}`);
    }
    const { begun, ended } = attempts;
    if (begun !== ended) this.object(`${name} began ${begun} attempts, and ended ${ended}`);
  }
}
