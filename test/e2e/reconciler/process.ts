/**
 * A worker that settles orders and stops in the middle of each, or a reconciler that finds out what became of
 * orders whose worker died. Both know of effects from the ledger alone.
 */
import 'reflect-metadata';
import { once } from 'node:events';
import { appendFileSync, readFileSync } from 'node:fs';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  IdempotencyEvents,
  IdempotencyModule,
  IdempotencyReconciler,
  IdempotencyService,
  type Recover,
} from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  COMMAND_TIMEOUT_MS,
  OPERATION,
  SCOPE,
  type Message,
  type ProcessSettings,
} from './settings.js';

const { role, store, ledger, leaseMs, calls } = JSON.parse(
  process.env.RECONCILER_TEST ?? '',
) as ProcessSettings;

const open = store.kind === 'redis' ? redisStore : postgresStore;

@Module({
  imports: [
    IdempotencyModule.forRoot({
      store: open({ url: store.url }),
      leaseMs,
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      saveTimeoutMs: COMMAND_TIMEOUT_MS,
      reconcile: role === 'reconciler' && { intervalMs: 100, batchSize: 5, afterMs: 100 },
    }),
  ],
})
class SettlingModule {}

const app = await NestFactory.createApplicationContext(SettlingModule, { logger: false });

const look: Recover = ({ key, attempt }) => {
  tell({ said: 'looked', key, attempt });
  return readFileSync(ledger, 'utf8').split('\n').includes(key)
    ? { value: { settled: key } }
    : 'run';
};

if (role === 'reconciler') {
  app.get(IdempotencyReconciler).register(OPERATION, { onTakeover: look });
  app.get(IdempotencyEvents).subscribe(({ type, recordKey }) => {
    tell({ said: 'event', type, recordKey });
  });
  // The reconciler keeps no process alive, and neither does an idle pool.
  process.stdin.resume();
  tell({ said: 'ready' });
} else {
  const service = app.get(IdempotencyService);
  const goOn = once(process.stdin, 'data');
  const attempts: Record<string, number> = {};
  let stopped = 0;
  const stop = async () => {
    stopped += 1;
    if (stopped === calls.length) tell({ said: 'stopped' });
    await goOn;
  };
  await Promise.all(
    calls.map(({ key, stopsAt }) =>
      service.run(
        { operation: OPERATION, key, scope: SCOPE, onTakeover: look },
        async (context) => {
          attempts[key] = context.attempt;
          if (stopsAt === 'before') await stop();
          appendFileSync(ledger, `${key}\n`);
          if (stopsAt === 'after') await stop();
          return { settled: key };
        },
      ),
    ),
  );
  tell({ said: 'ended', attempts });
  await app.close();
  process.stdin.destroy();
}

function tell(message: Message): void {
  console.log(JSON.stringify(message));
}
