import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Writable } from 'node:stream';
import { until } from '../../../support/waiting/until.js';

const COMMAND_TIMEOUT_MS = 300_000;

/**
 * Runs what it reads in one shell, so that variables, folders and processes in the background last; a command
 * that fails ends it. Everything that it started ends with it, and it ends with the process that opened it.
 */
const SHELL = `
trap 'trap - EXIT; kill -9 0' EXIT
set -e
while IFS= read -r -d '' -u 3 block; do
  eval "$block"
  printf '\\n%s\\n' "$0"
done
`;

/** A shell for the commands of a page, one block after another. */
export class Terminal {
  private readonly shell: ChildProcess;
  private readonly mark = `\n${randomUUID()}\n`;
  private log = '';
  private begin = 0;

  /** @param cwd - the folder that it begins in. */
  constructor(cwd: string, env: NodeJS.ProcessEnv) {
    this.shell = spawn('bash', ['--noprofile', '--norc', '-c', SHELL, this.mark.trim()], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      detached: true,
    });
    for (const stream of [this.shell.stdout!, this.shell.stderr!]) {
      stream.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    }
  }

  /** What was printed since the last block began. Processes in the background may print more. */
  get output(): string {
    return this.log.slice(this.begin).replace(this.mark, '');
  }

  /**
   * Runs a block to its end.
   *
   * @throws with its output, if a command fails.
   */
  async run(block: string): Promise<void> {
    this.begin = this.log.length;
    (this.shell.stdio[3] as Writable).write(`${block}\0`);
    await until(
      () => this.hasEnded || this.log.includes(this.mark, this.begin),
      COMMAND_TIMEOUT_MS,
    );
    if (this.hasEnded) throw new Error(`A command failed:\n${block}\n${this.output}`);
  }

  /** Ends the shell and all that runs in it. */
  close(): void {
    if (!this.hasEnded) process.kill(-this.shell.pid!, 'SIGKILL');
  }

  private get hasEnded(): boolean {
    return this.shell.exitCode !== null || this.shell.signalCode !== null;
  }
}
