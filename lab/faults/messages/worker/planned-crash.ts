import type { LineFile } from '../../worker/line-file.js';
import type { Point } from '../../worker/mishap.js';

const forever = new Int32Array(new SharedArrayBuffer(4));

/** Lets the process die where the next attempt comes by a point. */
export class PlannedCrash {
  private point: Point | undefined;

  constructor(
    private readonly worker: string,
    private readonly events: LineFile,
  ) {}

  plan(point: Point): void {
    this.point = point;
  }

  /** An attempt comes by this point: on with it if nothing is planned. */
  async at(point: Point): Promise<void> {
    if (point !== this.point) return;
    this.events.append({ type: 'lab:crash', point, worker: this.worker, at: Date.now() });
    process.kill(process.pid, 'SIGKILL');
    // The signal may take a moment, in which the attempt must not go on.
    Atomics.wait(forever, 0, 0);
  }
}
