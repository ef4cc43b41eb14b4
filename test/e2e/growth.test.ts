import { describe, expect, it } from '@jest/globals';
import { planOf } from '../lab/measure/growth/arguments.js';

// What it measures, in a short version: growth.endurance.all.test.ts.
describe('The command line of npm run lab -- measure growth', () => {
  it('measures a million requests on both platforms with Redis where it is told nothing', () => {
    const { platforms, store, chunks, requestsPerChunk, report } = planOf([]);
    expect({ platforms, store, report }).toEqual({
      platforms: ['express', 'fastify'],
      store: 'redis',
      report: undefined,
    });
    expect(chunks * requestsPerChunk).toBe(1_000_000);
  });

  it('keeps what it was told, so that the documentation can say it', () => {
    const { args } = planOf(['--requests', '4000', '--platform', 'express', '--report', 'growth']);
    expect(args).toEqual(['--requests', '4000', '--platform', 'express', '--store', 'redis']);
  });

  it.each([
    [['--requests', '1234'], '--requests must be a multiple of 400, but it is 1234'],
    [['--platform', 'koa'], '--platform must be express or fastify, but it is koa'],
    [['--store', 'postgres'], '--store must be redis or memory, but it is postgres'],
  ])('refuses %s', (args, message) => {
    expect(() => planOf(args)).toThrow(message);
  });
});
