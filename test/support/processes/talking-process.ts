import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from '../waiting/until.js';
import { typescriptNodeOptions } from '../typescript/node-options.js';

/** Longer than a process takes to start on a busy machine. */
const LIMIT_MS = 60_000;

/** A process of a test, which runs its TypeScript, and its output so far: one line of JSON each. */
export class TalkingProcess<Message extends object> {
  readonly messages: Message[] = [];
  private readonly child;
  private received = 0;
  private log = '';

  /**
   * @param settings - as JSON in the environment variable TEST_SETTINGS.
   * @param nodeOptions - none for a script outside of this checkout.
   */
  constructor(script: URL, settings: object, nodeOptions = typescriptNodeOptions) {
    const args = [...nodeOptions, fileURLToPath(script)];
    this.child = spawn(process.execPath, args, {
      env: { ...process.env, NODE_OPTIONS: '', TEST_SETTINGS: JSON.stringify(settings) },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.child.stderr.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    createInterface(this.child.stdout).on('line', (line) => {
      this.messages.push(JSON.parse(line) as Message);
    });
  }

  /** Waits for enough output. */
  until(isEnough: (messages: readonly Message[]) => boolean): Promise<void> {
    return until(() => {
      if (isEnough(this.messages)) return true;
      if (this.hasEnded) throw new Error(`the process ended: ${this.log}`);
      return false;
    }, LIMIT_MS);
  }

  /** Its next line of output. */
  async next(): Promise<Message> {
    this.received += 1;
    await this.until(({ length }) => length >= this.received);
    return this.messages[this.received - 1]!;
  }

  /** Continues the process, which waits on its standard input. */
  goOn(): void {
    this.child.stdin.write('go on\n');
  }

  /** SIGSTOP, SIGCONT. */
  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
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
