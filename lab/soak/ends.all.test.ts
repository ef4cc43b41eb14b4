import { describe, expect, it } from '@jest/globals';
import { Child } from '../../test/support/processes/child.js';
import { useRabbitMq } from '../../test/support/rabbitmq/use-rabbitmq.js';
import { useRedis } from '../../test/support/redis/use-redis.js';
import { WAYS, type SoakSetup, type WayName } from './setup.js';
import { endedAttempts } from './soak.js';

/** Enough for each of {@link ENDS}. */
const REQUESTS = 800;
const TIMEOUT_MS = 60_000;

const TRANSPORTS: Readonly<Record<WayName, string>> = {
  express: 'http',
  fastify: 'http',
  rabbitmq: 'message',
  call: 'call',
  graphql: 'graphql',
  'socket.io': 'websocket',
  ws: 'websocket',
};

/** Without them, the run proves nothing about them. */
const ENDS = ['completed', 'failed', 'recovered', 'released', 'superseded', 'diverged'].map(
  (how) => `ended: ${how}`,
);

const redis = useRedis();
const broker = useRabbitMq();

describe.each(WAYS)('attempts by way of %s', (way) => {
  it(
    'end once, as their events say, and none is left running',
    async () => {
      const setup: SoakSetup = { way, redisUrl: redis.url, rabbitMqPort: broker.port };
      const app = await Child.start(new URL('process.ts', import.meta.url), {
        env: { SOAK_SETUP: JSON.stringify(setup) },
      });
      try {
        await app.call('send', REQUESTS);
        // Calls are alternately made by the service, which throws another error.
        for (let sent = 0; sent < 2; sent += 1) await app.call('sendWithoutKey');
        const attempts = await endedAttempts(app);
        expect(attempts.wrongEnds).toEqual([]);
        expect(attempts.transports).toEqual([TRANSPORTS[way]]);
        expect(attempts.counted).toEqual(attempts.expected);
        expect(Object.keys(attempts.ends)).toEqual(
          expect.arrayContaining([...ENDS, 'invalid_request']),
        );
      } finally {
        await app.stop();
      }
    },
    TIMEOUT_MS,
  );
});
