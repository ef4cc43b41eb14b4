import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { keepResponses } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { fingerprint, newOwnerToken, recordKey, nodeClock } from '../support/internals/core.js';
import { encodeResponse } from '../support/internals/http.js';
import { documentationPages } from '../support/docs/documented-blocks.js';
import { projectRoot } from '../support/project-root.js';
import { freePort } from '../support/servers/free-port.js';
import { typescriptNodeOptions } from '../support/typescript/node-options.js';
import { useRedis, useRedisClient } from '../support/redis/use-redis.js';

const run = promisify(execFile);
const read = (page: string) => readFile(join(projectRoot, page), 'utf8');
const server = useRedis();

/** Nest reports its start before it listens. */
async function untilListening(app: ChildProcess, port: number): Promise<void> {
  for (;;) {
    if (app.exitCode !== null || app.signalCode !== null)
      throw new Error(`the application exited with ${String(app.exitCode ?? app.signalCode)}`);
    const socket = connect(port, '127.0.0.1');
    const isListening = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    if (isListening) return;
    await pause(20);
  }
}

describe('the example in the README', () => {
  let app: ChildProcess;
  let address: string;

  beforeAll(async () => {
    const port = await freePort();
    address = `127.0.0.1:${String(port)}`;
    const file = join(projectRoot, 'examples/readme/main.ts');
    app = spawn(process.execPath, [...typescriptNodeOptions, file], {
      env: { ...process.env, NODE_OPTIONS: '', PORT: String(port), REDIS_URL: server.url },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await untilListening(app, port);
  }, 60_000);

  afterAll(() => {
    app.kill('SIGKILL');
  });

  it('charges once for its two commands, which print what it shows', async () => {
    const readme = await read('README.md');
    const commands = readme.match(/^curl .+$/gm) ?? [];
    expect(commands).toHaveLength(2);
    const responses: string[] = [];
    for (const command of commands) {
      expect(command).toContain(' localhost:3000/payments ');
      const { stdout } = await run('sh', ['-c', command.replace('localhost:3000', address)]);
      responses.push(stdout);
    }
    const [first, second] = responses as [string, string];
    const [, shown = ''] = /^```http\n(.*?)\n```$/ms.exec(readme) ?? [];
    const withoutTime = (text: string) =>
      text.replaceAll('\r\n', '\n').replace(/^Date: .+ GMT$/gm, 'Date: …');
    expect(withoutTime(`${first}\n\n${second}`)).toBe(withoutTime(shown));
    expect(first).not.toMatch(/^Idempotent-Replayed:/im);
    expect(second).toMatch(/^Idempotent-Replayed: true\r$/m);
    expect(responses.every((text) => text.endsWith('\r\n{"charge":1,"amount":"1200"}'))).toBe(true);
  });
});

it('docs/reference/options.md states which statuses are not kept', async () => {
  const options = await read('docs/reference/options.md');
  const [, released = ''] = /4xx but ([\d, and]+)/.exec(options) ?? [];
  const statuses = Array.from({ length: 100 }, (_, i) => 400 + i);
  expect(released.match(/\d+/g)?.map(Number)).toEqual(
    statuses.filter((status) => !keepResponses({ status })),
  );
});

/** Of the outcome that is measured. */
const HEADER_BYTES = 134;

describe('the memory of a record in the documentation', () => {
  const client = useRedisClient(server);

  const bytes = async (key: string) => Number(await client.call('MEMORY', 'USAGE', key));

  /** Bytes of a record while in progress and when completed, for a response body of `bodyBytes`. */
  async function measured(bodyBytes: number): Promise<{ running: number; done: number }> {
    const store = redisStore({ client });
    const key = recordKey({ scope: ['u'], operation: 'o', key: String(bodyBytes) });
    const token = newOwnerToken(nodeClock);
    const print = fingerprint(['']);
    const timeoutMs = 1_000;
    const reply = await store.begin({
      recordKey: key,
      token,
      fingerprint: print,
      leaseMs: 10_000,
      maxExecutionMs: 300_000,
      recordRetentionMs: 86_700_000,
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs,
    });
    if (reply.kind !== 'acquired') throw new Error(reply.kind);
    const running = await bytes(`idem:1:${key}`);
    const response = {
      status: 201,
      headers: {
        'content-type': 'application/json; charset=utf-8',
        etag: 'W/"22-abcdefghijklmnopqrstuvwxyz0"',
        location: '/payments/123456',
      },
      body: Buffer.alloc(bodyBytes, 'x'),
    };
    const outcome = encodeResponse(response);
    expect(outcome.header).toHaveLength(HEADER_BYTES);
    await store.complete(
      { recordKey: key, token, fence: reply.fence },
      {
        state: 'completed',
        outcome,
        retentionMs: 86_400_000,
        fingerprint: print,
        whenGone: 'restore',
        timeoutMs,
      },
    );
    return { running, done: await bytes(`idem:1:${key}`) };
  }

  it.each([
    { body: 0, running: 216, done: 328 },
    { body: 200, running: 216, done: 552 },
    { body: 1_000, running: 216, done: 1_384 },
    { body: 4_000, running: 216, done: 5_224 },
  ])('stays below its formula, with a body of $body bytes', async ({ body, running, done }) => {
    const real = await measured(body);
    const pages = await Promise.all(documentationPages().map(read));
    const formula = /([\d.]+) × \(body \+ headers\) \+ (\d+) bytes/g;
    const formulas = [...pages.join('\n').matchAll(formula)];
    expect(formulas.length).toBeGreaterThanOrEqual(1);
    for (const [, factor, rest] of formulas) {
      expect(real.done).toBeLessThanOrEqual(Number(factor) * (body + HEADER_BYTES) + Number(rest));
    }
    // Other versions allocate otherwise.
    if ((await client.info('server')).includes('redis_version:7.0')) {
      expect(real).toEqual({ running, done });
    }
  });
});
