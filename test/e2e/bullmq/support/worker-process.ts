import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from '../../../integration/redis/support/until.js';
import { typescriptNodeOptions } from '../../../support/typescript/node-options.js';
import type { WorkerMessage, WorkerSettings } from './worker-settings.js';

/** A process of worker.process.ts, and what it has said so far. */
export class WorkerProcess {
  readonly messages: WorkerMessage[] = [];
  private readonly child;
  private log = '';

  constructor(settings: WorkerSettings) {
    const script = fileURLToPath(new URL('worker.process.ts', import.meta.url));
    this.child = spawn(process.execPath, [...typescriptNodeOptions, script], {
      env: { ...process.env, NODE_OPTIONS: '', BULLMQ_TEST_WORKER: JSON.stringify(settings) },
      // Without an input it would be there for ever.
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stderr.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    createInterface(this.child.stdout).on('line', (line) => {
      this.messages.push(JSON.parse(line) as WorkerMessage);
    });
  }

  /** The executions that it has begun, of one order or of all. */
  begun(id?: string): Extract<WorkerMessage, { said: 'begun' }>[] {
    const begun = this.messages.filter((message) => message.said === 'begun');
    return id === undefined ? begun : begun.filter((message) => message.id === id);
  }

  async untilReady(): Promise<void> {
    await until(() => {
      if (this.hasEnded) throw new Error(`the worker ended: ${this.log}`);
      return this.messages.some(({ said }) => said === 'ready');
    }, 20_000);
  }

  async kill(): Promise<void> {
    if (this.hasEnded) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }

  private get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }
}
