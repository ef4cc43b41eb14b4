import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

// Compiled beside compiled, source beside source: tests run both as TypeScript.
const source = (name: string) =>
  new URL(`../../src/${name}${extname(import.meta.url)}`, import.meta.url);
const MAIN = fileURLToPath(source('main'));
const INSTRUMENTATION = source('instrumentation').href;

/** Enough to see why a process ended. */
const KEPT_LINES = 200;

/** One process of the payments API, as `src/main.ts` starts it. */
export class ApiProcess {
  readonly #child: ChildProcess;
  readonly #lines = new EventEmitter();
  /** The last lines. */
  readonly #log: string[] = [];
  /** How many lines began with the same logger and word. */
  readonly #counts = new Map<string, number>();
  #url: string | undefined;

  /**
   * Not yet listening, see {@link untilListening}.
   *
   * @param program - and what is loaded before it, if it is not the API alone.
   */
  constructor(
    settings: Readonly<Record<string, string>>,
    nodeOptions: readonly string[] = process.execArgv,
    program: readonly string[] = ['--import', INSTRUMENTATION, MAIN],
  ) {
    const child = spawn(process.execPath, [...nodeOptions, ...program], {
      env: { ...process.env, NO_COLOR: '1', ...settings, PORT: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (line) => {
        this.#read(line);
      });
    }
    child.once('exit', () => this.#lines.emit('line'));
  }

  async untilListening(): Promise<void> {
    while (this.#url === undefined) await this.#nextLine();
  }

  get url(): string {
    if (this.#url === undefined) throw new Error('The process is not listening yet');
    return this.#url;
  }

  /** How often the library reported an event of this type in this process. */
  reported(event: string): number {
    return this.logged(`[Idempotency] ${event}`);
  }

  /** How many lines of a logger it has logged that begin with this word: `[Logger] word`. */
  logged(loggerAndWord: string): number {
    return this.#counts.get(loggerAndWord) ?? 0;
  }

  async untilReported(event: string, times: number): Promise<void> {
    while (this.reported(event) < times) await this.#nextLine();
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Shuts down gracefully. */
  async close(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.#isGone()) return;
    // Wait until its last line has been read.
    const closed = once(this.#child, 'close');
    this.#child.kill(signal);
    await closed;
  }

  #read(line: string): void {
    this.#log.push(line);
    if (this.#log.length > KEPT_LINES) this.#log.shift();
    const [counted] = /\[(?!Nest\])\w+\] \w+/.exec(line) ?? [];
    if (counted !== undefined) this.#counts.set(counted, this.logged(counted) + 1);
    this.#url ??= /^Payments API on (\S+)/.exec(line)?.[1];
    this.#lines.emit('line');
  }

  async #nextLine(): Promise<void> {
    if (this.#isGone()) throw new Error(`The API process ended:\n${this.#log.join('\n')}`);
    await once(this.#lines, 'line');
  }

  #isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}
