import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import { projectRoot } from '../../../support/project-root.js';
import type { Suite } from '../../../support/provision/unpacked-server.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import * as used from '../../../support/redis/use-redis.js';
import { useServer } from '../../../support/servers/use-server.js';
import { useUnpackedRedis } from './unpacked-redis.js';

/** Tests the links and the store, by each client, on another server than that of the system. */
export async function testOn(product: 'Redis' | 'Valkey', suite: Suite): Promise<void> {
  const server = await useUnpackedRedis(product, suite);
  // The shared one is the system's.
  jest.unstable_mockModule('../../../support/redis/use-redis.js', () => ({
    ...used,
    useRedis: () => useServer(startRedis),
  }));

  server.describe(server.title, () => {
    const redis = useServer(startRedis);
    const admin = used.useRedisClient(redis);

    it('is the server that runs', async () => {
      const info = await admin.info('server');
      expect(info).toMatch(
        new RegExp(`^${product.toLowerCase()}_version:${server.series}\\.`, 'm'),
      );
    });

    it('stands in the table of what was tried', () => {
      const page = readFileSync(join(projectRoot, 'docs/reference/tried-with.md'), 'utf8');
      const row = page.split('\n').find((line) => line.startsWith(`| ${product} `));
      expect(row).toContain(server.series);
    });
  });
  if (!server.isThere) return;

  await import('../link.test.js');
  await import('../node-redis/link.test.js');
  await import('../node-redis/store.test.js');
  await import('../valkey-glide/link.test.js');
  await import('../valkey-glide/store.test.js');
  const { redisUnderTest, redisOnItsOwnClock } =
    await import('../../../conformance/redis-under-test.js');
  const { describeStoreConformance } = await import('nestjs-idempotency/testing/store');
  for (const subject of [redisUnderTest, redisOnItsOwnClock]) {
    describeStoreConformance({ describe, it }, subject);
  }
}
