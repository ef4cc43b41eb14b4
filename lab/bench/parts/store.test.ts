import { describe, expect, it } from '@jest/globals';
import { conditions, measureStore } from './store.js';
import { builtPackage } from '../../../test/support/packages/built-package.js';

const CONDITIONS = [
  ...conditions('pair', 'TCP', 'on', 200, [4]),
  ...conditions('replay', 'Unix socket', 'off', 4_096, [1]),
];

describe('The benchmark', () => {
  it('measures the built library and its competitors in alternating rounds', async () => {
    const library = await builtPackage();
    const rounds = { rounds: 2, roundMs: 30, warmUpMs: 30 };
    const { measurements, versions } = await measureStore(
      { onProgress: () => undefined },
      rounds,
      CONDITIONS,
      {
        store: { kind: 'store', library },
        raw: { kind: 'raw' },
        scripts: { kind: 'scripts' },
      },
    );
    expect(versions.Redis).toMatch(/^\d+\.\d+/);
    expect(measurements.map(({ entrant, factors }) => `${factors.task} ${entrant}`)).toEqual([
      'pair store',
      'pair raw',
      'pair scripts',
      'replay store',
      'replay raw',
      'replay scripts',
    ]);
    for (const { metrics } of measurements) {
      for (const name of ['perSecond', 'cpuUs', 'redisUs', 'p50Ms', 'p99Ms', 'p999Ms']) {
        expect(metrics[name]?.rounds).toHaveLength(2);
        expect(metrics[name]?.min).toBeGreaterThan(0);
      }
    }
  });
});
