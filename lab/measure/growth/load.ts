import { serve } from '../../../test/support/processes/child.js';
import { Client, REQUESTS_OF_A_ROUND } from './client.js';

const CLIENTS = 32;

const clients: Client[] = [];

serve({
  connect: (port: number) => {
    clients.push(...Array.from({ length: CLIENTS }, () => new Client(port)));
  },
  /** Resolves when so many requests have been answered as they have to be. */
  send: async (requests: number) => {
    let rounds = requests / REQUESTS_OF_A_ROUND;
    await Promise.all(
      clients.map(async (client) => {
        while (rounds > 0) {
          rounds -= 1;
          await client.runRound();
        }
      }),
    );
  },
});
