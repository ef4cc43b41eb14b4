import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';

export interface WorkerSettings {
  readonly redisUrl: string;
  readonly postgresUrl: string;
  readonly order: string;
  /** What the worker would write. */
  readonly label: string;
  /** Whether its UPDATE compares the fence. */
  readonly isFenced: boolean;
  readonly leaseMs: number;
}

/** One worker, as a process that can be stopped and continued. */
export class WorkerProcess {
  private readonly child;
  private readonly lines: AsyncIterator<string>;
  private log = '';

  constructor(settings: WorkerSettings) {
    const script = fileURLToPath(new URL('shipping-worker.ts', import.meta.url));
    this.child = spawn(process.execPath, [...typescriptNodeOptions, script], {
      env: { ...process.env, NODE_OPTIONS: '', SHIPPING_WORKER: JSON.stringify(settings) },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.child.stderr.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    this.lines = createInterface(this.child.stdout)[Symbol.asyncIterator]();
  }

  /** The next thing that it has to say. */
  async told(): Promise<Record<string, unknown>> {
    const { value, done } = await this.lines.next();
    if (done === true) throw new Error(`the worker ended: ${this.log}`);
    return JSON.parse(value) as Record<string, unknown>;
  }

  /** Lets it write; heard as soon as it runs. */
  goOn(): void {
    this.child.stdin.write('go on\n');
  }

  /** SIGSTOP: it does nothing any more, and does not know. */
  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  async end(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}
