import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import type { Message, ProcessSettings } from './settings.js';

/** A process of process.ts, and what it has said so far. */
export class SettlingProcess {
  readonly messages: Message[] = [];
  private readonly child;
  private log = '';

  constructor(settings: ProcessSettings) {
    const script = fileURLToPath(new URL('process.ts', import.meta.url));
    this.child = spawn(process.execPath, [...typescriptNodeOptions, script], {
      env: { ...process.env, NODE_OPTIONS: '', RECONCILER_TEST: JSON.stringify(settings) },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.child.stderr.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    createInterface(this.child.stdout).on('line', (line) => {
      this.messages.push(JSON.parse(line) as Message);
    });
  }

  /** The messages of one kind. */
  of<Said extends Message['said']>(said: Said): Extract<Message, { said: Said }>[] {
    return this.messages.filter((message) => message.said === said) as never;
  }

  async untilSaid(said: Message['said']): Promise<void> {
    while (this.of(said).length === 0) {
      if (this.hasEnded) throw new Error(`the process ended: ${this.log}`);
      await delay(10);
    }
  }

  async end(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.hasEnded) return;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
  }

  private get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }
}
