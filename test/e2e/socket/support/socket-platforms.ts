import type { StoreKind } from '../../../support/http/combinations.js';
import { isTestAll } from '../../../support/jest/test-all.js';

/** Nest's adapters, named by their protocol. */
export type SocketPlatform = 'socket.io' | 'ws';

export const socketPlatforms: readonly SocketPlatform[] = ['socket.io', 'ws'];

const stores: readonly StoreKind[] = isTestAll ? ['redis', 'memory'] : ['memory', 'redis'];

/** Each adapter with one store; `npm run test:all` covers the other pairs. */
export const socketCombinations = socketPlatforms.map((platform, index) => ({
  platform,
  store: stores[index]!,
}));
