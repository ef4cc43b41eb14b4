import { describe, expect, it } from '@jest/globals';
import { planOf } from './arguments.js';

// growth.endurance.all.test.ts measures a short version.
describe('The command line of npm run lab -- measure growth', () => {
  it('measures a million requests on both platforms with Redis by default', () => {
    const { platforms, store, chunks, requestsPerChunk, report } = planOf([]);
    expect({ platforms, store, report }).toEqual({
      platforms: ['express', 'fastify'],
      store: 'redis',
      report: undefined,
    });
    expect(chunks * requestsPerChunk).toBe(1_000_000);
  });

  it('keeps its arguments for the report', () => {
    const { args } = planOf(['--requests', '4000', '--platform', 'express', '--report', 'growth']);
    expect(args).toEqual(['--requests', '4000', '--platform', 'express', '--store', 'redis']);
  });

  it.each([
    [['--requests', '1234'], '--requests must be a multiple of 400, but it is 1234'],
    [['--platform', 'koa'], '--platform must be express or fastify, but it is koa'],
    [['--store', 'postgres'], '--store must be redis or memory, but it is postgres'],
  ])('rejects %s', (args, message) => {
    expect(() => planOf(args)).toThrow(message);
  });
});
