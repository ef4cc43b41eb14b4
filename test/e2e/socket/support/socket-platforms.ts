/** Nest's adapters, by what their clients speak. */
export type SocketPlatform = 'socket.io' | 'ws';

export const socketPlatforms: readonly SocketPlatform[] = ['socket.io', 'ws'];

/** Both adapters on both stores. */
export const socketCombinations = socketPlatforms.flatMap((platform) =>
  (['memory', 'redis'] as const).map((store) => ({ platform, store })),
);
