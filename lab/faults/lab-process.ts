import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { outsideEnvironment } from '../../test/support/processes/processes.js';
import { SETTINGS_VARIABLE } from './worker/settings.js';

const LOG_LENGTH = 10_000;

/**
 * One start of a process of the laboratory, which does not outlive this one.
 *
 * @typeParam Ready - what it says over its channel once it is ready.
 */
export class LabProcess<Settings extends { readonly name: string }, Ready> {
  readonly #child: ChildProcess;
  readonly #exited: Promise<NodeJS.Signals | null>;
  #log = '';
  #hasExited = false;

  /** Not yet ready, see {@link untilReady}. */
  constructor(
    program: string,
    readonly settings: Settings,
  ) {
    this.#child = spawn(process.execPath, [program], {
      env: { ...outsideEnvironment(), [SETTINGS_VARIABLE]: JSON.stringify(settings) },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.#log = (this.#log + chunk.toString()).slice(-LOG_LENGTH);
      });
    }
    this.#exited = (
      once(this.#child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    ).then(([, signal]) => {
      this.#hasExited = true;
      return signal;
    });
  }

  get name(): string {
    return this.settings.name;
  }

  get isRunning(): boolean {
    return !this.#hasExited;
  }

  /** What it wrote on its standard streams, the last part of it. */
  get log(): string {
    return this.#log;
  }

  /** @throws Error with what it wrote, if it ends before. */
  async untilReady(): Promise<Ready> {
    const message = once(this.#child, 'message') as Promise<[Ready]>;
    const first = await Promise.race([message, this.#exited]);
    if (!Array.isArray(first)) throw new Error(`${this.name} did not start:\n${this.#log}`);
    return first[0];
  }

  /** Says something over its channel; a process that is gone does not hear it. */
  report(message: object): void {
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  /** @returns the signal that ended it, or `null` if it ended by itself. */
  untilExit(): Promise<NodeJS.Signals | null> {
    return this.#exited;
  }

  /** SIGSTOP: the process stands still, its connections stay open. */
  stop(): void {
    this.#child.kill('SIGSTOP');
  }

  /** SIGCONT. */
  continue(): void {
    this.#child.kill('SIGCONT');
  }

  /** SIGTERM: what a deployment does. Resolves when the process has ended. */
  async terminate(): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#exited;
  }

  /** SIGKILL, also to a process that stands still. Resolves when it has ended. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }
}
