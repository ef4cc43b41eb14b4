import { serve } from '../../../support/child.js';
import { Client, REQUESTS_OF_A_TURN } from './client.js';

const CLIENTS = 32;

const clients: Client[] = [];

serve({
  connect: (port: number) => {
    clients.push(...Array.from({ length: CLIENTS }, () => new Client(port)));
  },
  /** Resolves when so many requests have been answered as they have to be. */
  send: async (requests: number) => {
    let turns = requests / REQUESTS_OF_A_TURN;
    await Promise.all(
      clients.map(async (client) => {
        while (turns > 0) {
          turns -= 1;
          await client.takeTurn();
        }
      }),
    );
  },
});
