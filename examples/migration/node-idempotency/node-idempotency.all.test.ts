import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ensureInstalled, PEERS } from '../../../lab/bench/install.js';
import { platforms } from '../../../test/support/http/combinations.js';
import { Child } from '../../../test/support/processes/child.js';
import { useRedis, useRedisClient } from '../../../test/support/redis/use-redis.js';
import { AMOUNT, itKeepsFailures, itSwitches, pay, type Deployment } from '../switch.js';
import type { Start, Version } from './application.js';

const server = useRedis();
const redis = useRedisClient(server);
let child: Child;

beforeAll(async () => {
  await ensureInstalled(PEERS);
  child = await Child.start(new URL('application.ts', import.meta.url), {
    env: { MIGRATION_REDIS: server.url },
  });
}, 300_000);
afterAll(async () => {
  await child.call('stop');
  await child.stop();
});

const charges = async (order: string) => Number(await redis.get(`charges:${order}`));

describe.each(platforms)('from @node-idempotency/nestjs, on %s,', (platform) => {
  let before: string;
  let after: string;
  let mistaken: string;

  beforeAll(async () => {
    const start = (version: Version) =>
      child.call<string>('start', { version, platform } satisfies Start);
    [before, after, mistaken] = [
      await start('old'),
      await start('beside'),
      await start('mistaken'),
    ];
  }, 60_000);

  const deployment = (): Deployment => ({
    before,
    after,
    mistaken,
    charges,
    open: (order) => redis.rpush(`open:${order}`, 1),
  });
  itSwitches(deployment);
  itKeepsFailures(deployment);

  it('finds the record of a path with a parameter', async () => {
    const order = randomUUID();
    const path = `/payments/${order}/refunds`;
    const first = await pay(before, order, AMOUNT.charged, path);
    expect(first).toMatchObject({ status: 201, replayed: false });
    expect(await pay(after, order, AMOUNT.charged, path)).toEqual(first);
    expect(await charges(order)).toBe(1);
  });

  it('runs both packages beside each other in one application', async () => {
    const order = randomUUID();
    const first = await pay(after, order, AMOUNT.charged, '/vouchers');
    expect(first).toMatchObject({ status: 201, replayed: false });
    const replay = await pay(after, order, AMOUNT.charged, '/vouchers');
    expect(replay).toEqual({ ...first, replayed: true });
    expect(await charges(order)).toBe(1);
  });
});
