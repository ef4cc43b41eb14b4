import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { outsideEnvironment } from '../../support/packed-package.js';
import {
  SETTINGS_VARIABLE,
  type ListeningMessage,
  type WorkerSettings,
} from './worker/settings.js';

const LOG_LENGTH = 10_000;

/** One start of a worker process; it does not outlive this one. */
export class LabWorker {
  readonly #child: ChildProcess;
  readonly #exited: Promise<NodeJS.Signals | null>;
  #url: string | undefined;
  #log = '';
  #hasExited = false;

  /** Not yet listening, see {@link untilListening}. */
  constructor(
    program: string,
    readonly settings: WorkerSettings,
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

  get url(): string {
    if (this.#url === undefined) throw new Error(`${this.name} does not listen yet`);
    return this.#url;
  }

  get isRunning(): boolean {
    return !this.#hasExited;
  }

  /** What it wrote on its standard streams, the last part of it. */
  get log(): string {
    return this.#log;
  }

  /** @throws Error with what it wrote, if it ends before. */
  async untilListening(): Promise<void> {
    const message = once(this.#child, 'message') as Promise<[ListeningMessage]>;
    const first = await Promise.race([message, this.#exited]);
    if (!Array.isArray(first)) throw new Error(`${this.name} did not start:\n${this.#log}`);
    this.#url = first[0].listening;
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
