import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from '@jest/globals';
import { projectRoot } from '../project-root.js';
import { compile, findCompiler } from './compiler.js';

const SOURCE = join(projectRoot, 'test/support/clocks/server-clock.c');
const VERSION = createHash('sha256').update(readFileSync(SOURCE)).digest('hex');

/** Compiled once for all test files. */
const LIBRARY = join(projectRoot, 'node_modules/.cache/idempotency-server-clock', `${VERSION}.so`);

/** Preloading a library needs Linux; `npm test` has reported what is missing there. */
export const canFakeServerClock =
  process.platform === 'linux' && (existsSync(LIBRARY) || findCompiler() !== undefined);

/** For tests that move a server's clock. */
export const describeWithClock: typeof describe.skip = canFakeServerClock
  ? describe
  : describe.skip;
export const itWithClock: typeof it.skip = canFakeServerClock ? it : it.skip;

/**
 * The wall clock of the servers that are started with its {@link env}: TIME, the expiry of keys, everything
 * but the monotonic clock. It can be set while they run, forwards and backwards.
 */
export class ServerClock {
  private readonly dir = mkdtempSync(join(tmpdir(), 'idempotency-clock-'));
  private readonly file: number;
  private offsetMs = 0;
  readonly env: Readonly<Record<string, string>>;

  constructor() {
    const offset = join(this.dir, 'offset');
    if (!existsSync(LIBRARY)) {
      // Another worker may be writing it as well: the file is whole or absent.
      const unfinished = `${LIBRARY}.${String(process.pid)}`;
      mkdirSync(dirname(LIBRARY), { recursive: true });
      compile(findCompiler()!.command, SOURCE, unfinished);
      renameSync(unfinished, LIBRARY);
    }
    this.file = openSync(offset, 'w');
    this.setOffset(0);
    this.env = { LD_PRELOAD: LIBRARY, SERVER_CLOCK_FILE: offset };
  }

  /** How far the servers' clock is ahead of this machine's, in ms; negative for behind. */
  setOffset(ms: number): void {
    this.offsetMs = ms;
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(ms));
    writeSync(this.file, bytes, 0, bytes.length, 0);
  }

  /** Advances the servers' clock by this time at once. */
  pass(ms: number): void {
    this.setOffset(this.offsetMs + ms);
  }

  /** After the servers have stopped. */
  remove(): void {
    closeSync(this.file);
    rmSync(this.dir, { recursive: true, force: true });
  }
}
