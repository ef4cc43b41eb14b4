import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

/** The time-out of the function, less a second to respond with an error of its own. */
const TIMEOUT_MS = 29_000;

export const idempotency = () =>
  IdempotencyModule.forRoot({
    service: 'shop',
    store: redisStore({ url: process.env.REDIS_URL }),
    storeErrors: {
      commandTimeout: '3s', // longer than the store needs to replace a dead connection
      saveTimeout: '3s',
      whenNotSaved: 'error', // nothing is saved after the response: the process is frozen then
    },
    lease: { duration: '10s', maxExecution: TIMEOUT_MS },
    duplicates: 'reject', // a waiting duplicate is paid for
  });
