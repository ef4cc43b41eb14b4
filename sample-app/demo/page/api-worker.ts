import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Report } from './reports.js';

// Compiled beside compiled, source beside source: tests run both as TypeScript.
const EXTENSION = extname(import.meta.url);
const PROGRAM = fileURLToPath(new URL(`api.process${EXTENSION}`, import.meta.url));
const INSTRUMENTATION = new URL(`../../src/instrumentation${EXTENSION}`, import.meta.url).href;

const PAUSE_MS = 500;

interface Events {
  readonly report: [Report];
  /** The process has ended; what it had begun is cut off. */
  readonly ended: [];
}

/** Keeps one process of the API running: when it ends, it starts the next one. */
export class ApiWorker extends EventEmitter<Events> {
  #child: ChildProcess | undefined;
  #url: URL | undefined;
  #isClosing = false;
  #isOver = Promise.resolve();

  /** @param mayStart - whether the store is there: without it the process could not start. */
  constructor(
    readonly name: string,
    private readonly settings: Readonly<Record<string, string>>,
    private readonly mayStart: () => boolean,
  ) {
    super();
  }

  /** Where it listens; `undefined` while it starts. */
  get url(): URL | undefined {
    return this.#url;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** @throws Error if the first process ends before it listens; the reason is in its log. */
  async start(): Promise<void> {
    const ended = (this.#isOver = this.#spawn());
    await Promise.race([this.#listening(), ended]);
    if (this.#url === undefined) throw new Error('The API did not start');
    this.#isOver = this.#keepRunning(ended);
  }

  /** kill -9. */
  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  /** Shuts down gracefully. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#child?.kill('SIGTERM');
    await this.#isOver;
  }

  async #keepRunning(ended: Promise<void>): Promise<void> {
    for (;;) {
      await ended;
      do {
        await sleep(PAUSE_MS);
        if (this.#isClosing) return;
      } while (!this.mayStart());
      ended = this.#spawn();
    }
  }

  async #listening(): Promise<void> {
    while (this.#url === undefined) await once(this, 'report');
  }

  /** @returns when it has ended. */
  async #spawn(): Promise<void> {
    const options = [...process.execArgv, '--import', INSTRUMENTATION];
    const child = spawn(process.execPath, [...options, PROGRAM], {
      env: { ...process.env, ...this.settings, PORT: '0' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    child.on('message', (report: Report) => {
      if (report.type === 'listening') this.#url = new URL(report.url);
      this.emit('report', report);
    });
    await once(child, 'exit');
    this.#url = undefined;
    this.emit('ended');
  }
}
