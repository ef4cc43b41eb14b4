import { describe, expect, it, jest } from '@jest/globals';

/** Tests the store's own connection on another version of ioredis than the one that `npm test` uses. */
export async function testOn(name: 'ioredis-5' | 'ioredis-5.4'): Promise<void> {
  jest.unstable_mockModule('ioredis', () => import(name));

  it(`opens its connection with ${name}`, async () => {
    const { Redis } = (await import(name)) as typeof import('ioredis-5');
    const { openConnection } = await import('../../../support/internals/redis.js');
    const { client, close } = await openConnection({});
    expect(client).toBeInstanceOf(Redis);
    await close();
  });

  await import('../connections/own-commands.test.js');
  await import('../connections/losses.test.js');
  await import('../server.test.js');
  await import('../link.test.js');
  const { redisOnOwnConnection } = await import('../../../conformance/redis-under-test.js');
  const { describeStoreConformance } = await import('nestjs-idempotency/testing/store');
  describeStoreConformance({ describe, it }, redisOnOwnConnection);
}
