import type { Lab } from '../faults/lab.js';
import type { LabWorker } from '../faults/lab-worker.js';
import type { StoreSettings } from '../faults/worker/settings.js';
import type { Plan } from './plan.js';
import { ProcessPool } from './process-pool.js';

/** The workers of a run. */
export class WorkerPool extends ProcessPool<LabWorker> {
  private constructor(
    private readonly lab: Lab,
    private readonly storeFor: (slot: number) => StoreSettings,
    private readonly plan: Plan,
  ) {
    super(plan.workers);
  }

  static async start(
    lab: Lab,
    storeFor: (slot: number) => StoreSettings,
    plan: Plan,
  ): Promise<WorkerPool> {
    const pool = new WorkerPool(lab, storeFor, plan);
    await pool.fill();
    return pool;
  }

  /** Of those that listen. */
  get urls(): readonly string[] {
    return this.processes.map(({ url }) => url);
  }

  /** The worker of this slot, or the next one that listens; none if all are down. */
  urlOf(slot: number): string | undefined {
    return this.at(slot)?.url;
  }

  protected override launch(slot: number): Promise<LabWorker> {
    const { effectMs: effectDelayMs, leaseMs, onSaveFailure } = this.plan;
    const { saveTimeoutMs, commandTimeoutMs, transactional, mutant } = this.plan;
    const options = {
      lease: { duration: leaseMs },
      storeErrors: {
        whenNotSaved: onSaveFailure,
        saveTimeout: saveTimeoutMs,
        commandTimeout: commandTimeoutMs,
      },
    };
    return this.lab.start(this.storeFor(slot), {
      options,
      effectDelayMs,
      transactional,
      ...(mutant && { mutant }),
    });
  }

  protected override killProcess(worker: LabWorker): Promise<void> {
    return this.lab.kill(worker);
  }

  protected override terminateAll(): Promise<void> {
    return this.lab.terminate();
  }
}
