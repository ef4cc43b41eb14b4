import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { typescriptNodeOptions } from '../../../support/typescript/node-options.js';
import type { Plan } from './effects-app.js';

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url));

type Ports = Readonly<Record<string, number>>;
type Message = { readonly ports: Ports } | { readonly written: string };

/** The response to a client. */
export interface ApiResponse {
  readonly status: number;
  readonly isReplay: boolean;
  readonly body: unknown;
}

/** Another process, with an application for each adapter. */
export class WorkerProcess {
  /** The rows that hanging handlers have written. */
  readonly written = new Set<string>();

  private constructor(
    private readonly child: ChildProcess,
    private readonly ports: Ports,
  ) {
    child.on('message', (message: Message) => {
      if ('written' in message) this.written.add(message.written);
    });
  }

  static async start(url: string): Promise<WorkerProcess> {
    const child = fork(WORKER, [url], { execArgv: [...typescriptNodeOptions] });
    const death = once(child, 'exit').then(() => {
      throw new Error('the worker ended before it listened');
    });
    const [message] = (await Promise.race([once(child, 'message'), death])) as [Message];
    death.catch(() => undefined);
    if (!('ports' in message)) throw new Error('the worker does not listen');
    return new WorkerProcess(child, message.ports);
  }

  /** Posts the row `id`, with `id` as the key. */
  async post(adapter: string, id: string, plan: Plan = 'answer'): Promise<ApiResponse> {
    const response = await fetch(`http://127.0.0.1:${String(this.ports[adapter])}/effects`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': id, 'x-plan': plan },
      body: JSON.stringify({ id }),
    });
    return {
      status: response.status,
      isReplay: response.headers.get('idempotent-replayed') === 'true',
      body: await response.json(),
    };
  }

  /** Sends SIGKILL, and waits until the process has ended. */
  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const death = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await death;
  }
}
