import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

// Compiled beside compiled, source beside source: tests run both as TypeScript.
const program = (name: string) =>
  new URL(`../../src/${name}${extname(import.meta.url)}`, import.meta.url);
const MAIN = fileURLToPath(program('main'));
const INSTRUMENTATION = program('instrumentation').href;

/** One process of the payments API, just as `npm start` runs it. */
export class ApiProcess {
  readonly #child: ChildProcess;
  readonly #lines = new EventEmitter();
  readonly #log: string[] = [];
  #url: string | undefined;

  /** Not yet listening, see {@link untilListening}. */
  constructor(
    settings: Readonly<Record<string, string>>,
    nodeOptions: readonly string[] = process.execArgv,
  ) {
    const child = spawn(process.execPath, [...nodeOptions, '--import', INSTRUMENTATION, MAIN], {
      env: { ...process.env, NO_COLOR: '1', ...settings, PORT: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (line) => {
        this.#log.push(line);
        this.#lines.emit('line');
      });
    }
    child.once('exit', () => this.#lines.emit('line'));
  }

  async untilListening(): Promise<void> {
    this.#url = await this.#firstMatch(/^Payments API on (\S+)/);
  }

  get url(): string {
    if (this.#url === undefined) throw new Error('The process is not listening yet');
    return this.#url;
  }

  /** How often the library reported an event of this type in this process. */
  reported(event: string): number {
    return this.logged(`[Idempotency] ${event} `);
  }

  /** How many lines with this text it has logged. */
  logged(text: string): number {
    return this.#log.filter((line) => line.includes(text)).length;
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

  async #firstMatch(pattern: RegExp): Promise<string> {
    for (;;) {
      for (const line of this.#log) {
        const found = pattern.exec(line)?.[1];
        if (found !== undefined) return found;
      }
      await this.#nextLine();
    }
  }

  async #nextLine(): Promise<void> {
    if (this.#isGone()) throw new Error(`The API process ended:\n${this.#log.join('\n')}`);
    await once(this.#lines, 'line');
  }

  #isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}
