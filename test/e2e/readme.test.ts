import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { transform } from '@swc/core';
import { keepResponses } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { fingerprint, newOwnerToken, recordKey } from '../support/internals/core/record.js';
import { nodeClock } from '../support/internals/core/util.js';
import { encodeResponse } from '../support/internals/transports/http/response.js';
import { freePort } from '../support/servers/free-port.js';
import { typescriptNodeOptions } from '../support/typescript/node-options.js';
import { useRedis, useRedisClient } from '../support/redis/use-redis.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
let readme: string;

beforeAll(async () => {
  readme = await readFile(join(root, 'README.md'), 'utf8');
});

/** Nest reports its start before it listens. */
async function untilListening(app: ChildProcess, port: number): Promise<void> {
  for (;;) {
    if (app.exitCode !== null)
      throw new Error(`the application exited with ${String(app.exitCode)}`);
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
  let folder: string;
  let app: ChildProcess;
  let url: string;

  beforeAll(async () => {
    const [, code = ''] = /```ts\n(.*?)```/s.exec(readme) ?? [];
    const { code: javascript } = await transform(code, {
      filename: 'main.ts',
      jsc: {
        parser: { syntax: 'typescript', decorators: true },
        transform: { legacyDecorator: true, decoratorMetadata: true },
        target: 'es2022',
      },
      module: { type: 'es6' },
    });
    // Inside the project, where Nest is found.
    folder = await mkdtemp(join(root, 'test/.tmp-readme-'));
    await writeFile(join(folder, 'main.mjs'), javascript);
    const port = await freePort();
    url = `http://127.0.0.1:${String(port)}/payments`;
    app = spawn(process.execPath, [...typescriptNodeOptions, join(folder, 'main.mjs')], {
      env: { ...process.env, NODE_OPTIONS: '', PORT: String(port) },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await untilListening(app, port);
  });

  afterAll(async () => {
    app.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });

  it('charges once for two requests with one key', async () => {
    const headers = { 'Idempotency-Key': 'k-1' };
    const send = () =>
      fetch(url, { method: 'POST', headers, body: new URLSearchParams({ amount: '1200' }) });
    const first = await send();
    const second = await send();
    expect(first.headers.get('idempotent-replayed')).toBeNull();
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(await first.text()).toBe('{"charge":1,"amount":"1200"}');
    expect(await second.text()).toBe('{"charge":1,"amount":"1200"}');
  });
});

it('docs/reference/options.md states which statuses are not kept', async () => {
  const options = await readFile(join(root, 'docs/reference/options.md'), 'utf8');
  const [, released = ''] = /4xx but ([\d, and]+)/.exec(options) ?? [];
  const statuses = Array.from({ length: 100 }, (_, i) => 400 + i);
  expect(released.match(/\d+/g)?.map(Number)).toEqual(
    statuses.filter((status) => !keepResponses({ status })),
  );
});

/** The header bytes of the outcome that the README measures. */
const HEADER_BYTES = 134;

describe('the memory in the README', () => {
  const server = useRedis();

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

  it('equals that of a record, and stays below the formula', async () => {
    const isMeasuredVersion = (await client.info('server')).includes('redis_version:7.0');
    const rows = [...readme.matchAll(/^ *\| +([\d,]+) B \| +([\d,]+) B \| +([\d,]+) B \|/gm)];
    expect(rows.length).toBeGreaterThanOrEqual(4);
    for (const row of rows) {
      const [body = 0, running = 0, done = 0] = row
        .slice(1)
        .map((text) => Number(text.replace(',', '')));
      const real = await measured(body);
      expect(real.done).toBeLessThanOrEqual(1.25 * (body + HEADER_BYTES) + 350);
      if (isMeasuredVersion) expect({ body, ...real }).toEqual({ body, running, done });
    }
  });
});
