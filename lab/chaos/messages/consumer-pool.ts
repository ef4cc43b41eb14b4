import type { ConsumerProcess } from '../../faults/messages/consumer-process.js';
import type { MessageLab } from '../../faults/messages/message-lab.js';
import { ProcessPool } from '../process-pool.js';

/** The consumers of a run. */
export class ConsumerPool extends ProcessPool<ConsumerProcess> {
  private constructor(
    private readonly lab: MessageLab,
    size: number,
  ) {
    super(size);
  }

  static async start(lab: MessageLab, size: number): Promise<ConsumerPool> {
    const pool = new ConsumerPool(lab, size);
    await pool.fill();
    return pool;
  }

  protected override launch(slot: number): Promise<ConsumerProcess> {
    return this.lab.start(slot);
  }

  protected override killProcess(consumer: ConsumerProcess): Promise<void> {
    return this.lab.kill(consumer);
  }

  protected override terminateAll(): Promise<void> {
    return this.lab.terminate();
  }
}
