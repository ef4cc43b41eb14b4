import { beforeEach, describe, expect, it } from '@jest/globals';
import { platforms } from '../../test/support/http/combinations.js';
import { Child } from '../../test/support/processes/child.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { post } from '../support/http-client.js';

/** Of rate-limits.module.ts. */
const EXECUTIONS = 10;
const REQUESTS = 120;
const WINDOW_MS = 60_000;
const RECORDS = 200;
const RETENTION_MS = 86_400_000;

const child = useServer(() => Child.start(new URL('rate-limits.process.ts', import.meta.url)));
const nextWindow = () => child.call('advance', WINDOW_MS + 1);
let keys = 0;
const newKey = () => `key-${(keys += 1)}`;

describe.each(platforms)('@nestjs/throttler on %s', (platform) => {
  const charges = () => child.call<number>('charges', platform);
  const send = async (key: string, path = '/payments', id = 'alice') => {
    const port = await child.call<number>('port', platform);
    return post(port, path, { key, as: { id }, json: { amount: 500 } });
  };

  beforeEach(nextWindow);

  it('counts executions, and not replays', async () => {
    const before = await charges();
    const used = Array.from({ length: EXECUTIONS }, newKey);
    for (const key of used) expect(await send(key)).toMatchObject({ status: 201, replayed: false });
    for (const key of [...used, ...used]) {
      expect(await send(key)).toMatchObject({ status: 201, replayed: true });
    }
    expect((await send(used[0]!)).headers.get('x-ratelimit-remaining')).toBeNull();
    expect((await charges()) - before).toBe(EXECUTIONS);

    const late = newKey();
    const limited = await send(late);
    expect(limited).toMatchObject({ status: 429, replayed: false });
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await charges()) - before).toBe(EXECUTIONS);

    // The 429 was not kept: the same key runs once the limit allows it.
    await nextWindow();
    expect(await send(late)).toMatchObject({ status: 201, replayed: false });
    expect((await charges()) - before).toBe(EXECUTIONS + 1);
  });

  it('limits requests as well, so that replays are not without limit', async () => {
    const key = newKey();
    const statuses = new Map<number, number>();
    for (let request = 0; request < REQUESTS + 5; request += 1) {
      const { status } = await send(key);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    expect([...statuses]).toEqual([
      [201, REQUESTS],
      [429, 5],
    ]);
  });

  it('bounds the records of one user, and of no other', async () => {
    const before = await charges();
    for (let executed = 0; executed < RECORDS; executed += 1) {
      if (executed % EXECUTIONS === 0) await nextWindow();
      expect(await send(newKey(), '/payments', 'mallory')).toMatchObject({ status: 201 });
    }
    await nextWindow();
    const limited = await send(newKey(), '/payments', 'mallory');
    expect(limited).toMatchObject({ status: 429, replayed: false });
    expect(await send(newKey(), '/payments', 'bob')).toMatchObject({ status: 201 });
    expect((await charges()) - before).toBe(RECORDS + 1);
    await child.call('advance', RETENTION_MS + 1);
    expect(await send(newKey(), '/payments', 'mallory')).toMatchObject({ status: 201 });
  });

  it.each([
    ['the guard of the package', '/guarded'],
    ['the interceptor below @Idempotent(), which is outside', '/outside'],
  ])('counts replays with %s', async (_, path) => {
    const before = await charges();
    const key = newKey();
    for (let request = 0; request < EXECUTIONS; request += 1) {
      expect(await send(key, path)).toMatchObject({ status: 201, replayed: request > 0 });
    }
    expect(await send(key, path)).toMatchObject({ status: 429, replayed: false });

    // The retry that waits gets the first outcome, and nothing runs twice.
    await nextWindow();
    expect(await send(key, path)).toMatchObject({ status: 201, replayed: true });
    expect((await charges()) - before).toBe(1);
  });
});
