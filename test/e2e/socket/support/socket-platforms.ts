import type { StoreKind } from '../../../support/http/combinations.js';
import { isTestAll } from '../../../support/test-all.js';

/** Nest's adapters, by what their clients speak. */
export type SocketPlatform = 'socket.io' | 'ws';

export const socketPlatforms: readonly SocketPlatform[] = ['socket.io', 'ws'];

const stores: readonly StoreKind[] = isTestAll ? ['redis', 'memory'] : ['memory', 'redis'];

/** Each adapter on one store; `npm run test:all` has the other pairing. */
export const socketCombinations = socketPlatforms.map((platform, index) => ({
  platform,
  store: stores[index]!,
}));
