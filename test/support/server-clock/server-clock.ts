import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';
import { compile, findCompiler } from './compiler.js';

/** Preloading a library is a thing of Linux; what is missing there, `npm test` has said. */
export const canFakeServerClock = process.platform === 'linux' && findCompiler() !== undefined;

/**
 * The wall clock of the servers that are started with its {@link env}: TIME, the lives of keys, everything
 * but the monotonic clock. It can be set while they run, forwards and backwards.
 */
export class ServerClock {
  private readonly dir = mkdtempSync(join(tmpdir(), 'idempotency-clock-'));
  private readonly file: number;
  readonly env: Readonly<Record<string, string>>;

  constructor() {
    const library = join(this.dir, 'server-clock.so');
    const source = join(projectRoot, 'test/support/server-clock/server-clock.c');
    const offset = join(this.dir, 'offset');
    compile(findCompiler()!.command, source, library);
    this.file = openSync(offset, 'w');
    this.setOffset(0);
    this.env = { LD_PRELOAD: library, SERVER_CLOCK_FILE: offset };
  }

  /** How far the servers' clock is ahead of this machine's, in ms; negative for behind. */
  setOffset(ms: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(ms));
    writeSync(this.file, bytes, 0, bytes.length, 0);
  }

  /** After the servers have stopped. */
  remove(): void {
    closeSync(this.file);
    rmSync(this.dir, { recursive: true, force: true });
  }
}
