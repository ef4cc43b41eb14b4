import { parseArgs } from 'node:util';
import type { Platform, StoreKind } from '../../../test/support/http/combinations.js';
import { REQUESTS_OF_A_ROUND } from './client.js';

/** How often the process is measured. */
const CHUNKS = 10;

export interface GrowthPlan {
  readonly platforms: readonly Platform[];
  readonly store: StoreKind;
  readonly chunks: number;
  readonly requestsPerChunk: number;
  readonly report: string | undefined;
  /** All of them, but where to keep the report. */
  readonly args: readonly string[];
}

/** @throws an Error that says what is wrong with them. */
export function planOf(commandLine: readonly string[]): GrowthPlan {
  const { values } = parseArgs({
    args: [...commandLine],
    options: {
      requests: { type: 'string', default: '1000000' },
      platform: { type: 'string' },
      store: { type: 'string', default: 'redis' },
      report: { type: 'string' },
    },
  });
  const { requests, platform, store, report } = values;
  const perChunk = Number(requests) / CHUNKS;
  if (!(perChunk > 0 && perChunk % REQUESTS_OF_A_ROUND === 0)) {
    const step = CHUNKS * REQUESTS_OF_A_ROUND;
    throw new Error(`--requests must be a multiple of ${step}, but it is ${requests}.`);
  }
  if (platform !== undefined && platform !== 'express' && platform !== 'fastify') {
    throw new Error(`--platform must be express or fastify, but it is ${platform}.`);
  }
  if (store !== 'redis' && store !== 'memory') {
    throw new Error(`--store must be redis or memory, but it is ${store}.`);
  }
  return {
    platforms: platform === undefined ? ['express', 'fastify'] : [platform],
    store,
    chunks: CHUNKS,
    requestsPerChunk: perChunk,
    report,
    args: Object.entries({ requests, platform, store })
      .filter(([, value]) => value !== undefined)
      .flatMap(([name, value]) => [`--${name}`, value ?? '']),
  };
}
