import { expect, it, jest } from '@jest/globals';

// The oldest one of the peer range.
jest.unstable_mockModule('redis', () => import('redis-5'));

it('runs with redis 5', async () => {
  const [redis, redis5] = await Promise.all([import('redis'), import('redis-5')]);
  expect(redis.createClient).toBe(redis5.createClient);
});

await import('./link.test.js');
await import('./store.test.js');
