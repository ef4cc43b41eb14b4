import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { scriptCalls } from '../../support/script-calls.js';
import { isTestAll } from '../../support/test-all.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { useRedis } from '../../support/use-redis.js';
import type { ProcessSettings } from './settings.js';

const SCRIPT = fileURLToPath(new URL('process.ts', import.meta.url));
const KEYS = isTestAll ? 200 : 40;
const KEYS_AT_ONCE = 10;
const COPIES_AT_ONCE = 6;
const ROUNDS_LATER = 3;

interface Answer {
  readonly status: number;
  readonly isReplay: boolean;
  readonly body: string;
}

class PaymentsProcess {
  private readonly child: ChildProcessByStdio<Writable, Readable, null>;
  private readonly lines: AsyncIterator<string>;
  private url = '';

  constructor(settings: ProcessSettings) {
    this.child = spawn(process.execPath, [...typescriptNodeOptions, SCRIPT], {
      env: { ...process.env, CACHE_TEST: JSON.stringify(settings) },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.lines = createInterface(this.child.stdout)[Symbol.asyncIterator]();
  }

  async untilListening(): Promise<void> {
    this.url = await this.nextLine();
  }

  /** What it says next. */
  async nextLine(): Promise<string> {
    const { value, done } = await this.lines.next();
    if (done === true) throw new Error('the process has ended');
    return value;
  }

  goOn(): void {
    this.child.stdin.write('go on\n');
  }

  async post(path: string, key: string): Promise<Answer> {
    const headers = { 'idempotency-key': key };
    const response = await fetch(this.url + path, { method: 'POST', headers });
    const isReplay = response.headers.get('idempotent-replayed') === 'true';
    return { status: response.status, isReplay, body: await response.text() };
  }

  async kill(): Promise<void> {
    const ended = once(this.child, 'exit');
    if (this.child.kill('SIGKILL')) await ended;
  }
}

describe('two processes with a cache each, on one Redis', () => {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-two-caches-'));
  const ledger = join(folder, 'ledger');
  const redis = useRedis();
  let observer: Redis;
  let one: PaymentsProcess;
  let other: PaymentsProcess;

  beforeAll(async () => {
    observer = new Redis(redis.url);
    const settings = { redisUrl: redis.url, ledger };
    [one, other] = [new PaymentsProcess(settings), new PaymentsProcess(settings)];
    for (const process of [one, other]) {
      await process.untilListening();
      // It learns, or the server does, what is sent once only.
      for (let time = 0; time < 3; time += 1) await process.post('/payments', 'warm up');
    }
  }, 30_000);

  afterAll(async () => {
    await Promise.all([one.kill(), other.kill()]);
    observer.disconnect();
    rmSync(folder, { recursive: true });
  });

  const effects = (key: string) =>
    readFileSync(ledger, 'utf8')
      .split('\n')
      .filter((line) => line === key).length;

  async function commandsDuring(work: () => Promise<unknown>): Promise<number> {
    const before = await scriptCalls(observer);
    await work();
    return (await scriptCalls(observer)) - before;
  }

  it('replay what the other has run: asked once, then out of their own memory', async () => {
    const key = randomUUID();
    const first = await one.post('/payments', key);
    expect(first).toMatchObject({ status: 201, isReplay: false });
    const replay = { ...first, isReplay: true };
    const thrice = async (process: PaymentsProcess) => {
      for (let time = 0; time < 3; time += 1) {
        expect(await process.post('/payments', key)).toEqual(replay);
      }
    };
    expect(await commandsDuring(() => thrice(other))).toBe(1);
    expect(await commandsDuring(() => thrice(one))).toBe(1);
    expect(await commandsDuring(() => thrice(other))).toBe(0);
    expect(effects(key)).toBe(1);
  });

  it('ask the store about what is in progress, each time', async () => {
    const key = randomUUID();
    const running = one.post('/held', key);
    expect(await one.nextLine()).toBe('held');
    const refused = async () => {
      for (const process of [other, one, other, one]) {
        expect(await process.post('/held', key)).toMatchObject({ status: 409 });
      }
    };
    expect(await commandsDuring(refused)).toBe(4);
    one.goOn();
    const first = await running;
    expect(first).toMatchObject({ status: 201, isReplay: false });
    for (const process of [other, one, other, one]) {
      expect(await process.post('/held', key)).toEqual({ ...first, isReplay: true });
    }
    expect(effects(key)).toBe(1);
  });

  it(`execute ${KEYS} payments once, and give every key one body, at once and later`, async () => {
    const waiting = Array.from({ length: KEYS }, () => randomUUID());
    const all = [...waiting];
    const send = (key: string, copies: number) =>
      Promise.all(
        Array.from({ length: copies }, (_, copy) =>
          (copy % 2 === 0 ? one : other).post('/payments', key),
        ),
      );
    const worker = async () => {
      for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
        const atOnce = await send(key, COPIES_AT_ONCE);
        const executed = atOnce.filter(({ status, isReplay }) => status === 201 && !isReplay);
        expect(executed).toHaveLength(1);
        const replay = { status: 201, isReplay: true, body: executed[0]?.body };
        for (const answer of atOnce) {
          if (answer !== executed[0] && answer.status !== 409) expect(answer).toEqual(replay);
        }
        for (let round = 0; round < ROUNDS_LATER; round += 1) {
          expect(await send(key, 2)).toEqual([replay, replay]);
        }
      }
    };
    const commands = await commandsDuring(() =>
      Promise.all(Array.from({ length: KEYS_AT_ONCE }, worker)),
    );
    const ran = readFileSync(ledger, 'utf8').trimEnd().split('\n');
    expect(ran).toHaveLength(new Set(ran).size);
    for (const key of all) expect(ran).toContain(key);
    // Of each key all that came at once, its completion, and later at the most once for each process.
    expect(commands).toBeLessThanOrEqual(KEYS * (COPIES_AT_ONCE + 1 + 2));
  }, 90_000);
});
