import { jest } from '@jest/globals';
import * as byNodeRedis from './support/open-node-redis-link.js';

// The same faults, with the link of node-redis.
jest.unstable_mockModule('./support/open-link.js', () => byNodeRedis);

await import('./losses.test.js');
await import('./outages.test.js');
