/**
 * A worker that settles orders and stops forever in the middle of each, or a reconciler that settles the keys of a
 * dead worker. Both learn of effects only from the ledger.
 */
import 'reflect-metadata';
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
import { SERVICE } from '../../support/stores/named-for.js';
import {
  COMMAND_TIMEOUT_MS,
  OPERATION,
  SCOPE,
  type Message,
  type ProcessSettings,
} from './settings.js';

const { role, store, ledger, leaseMs, calls } = JSON.parse(
  process.env.TEST_SETTINGS ?? '',
) as ProcessSettings;

const open = store.kind === 'redis' ? redisStore : postgresStore;

@Module({
  imports: [
    IdempotencyModule.forRoot({
      service: SERVICE,
      store: open({ url: store.url }),
      lease: { duration: leaseMs },
      storeErrors: { commandTimeout: COMMAND_TIMEOUT_MS, saveTimeout: COMMAND_TIMEOUT_MS },
      reconcile: role === 'reconciler' && { interval: 100, batchSize: 5, after: 100 },
    }),
  ],
})
class SettlingModule {}

const app = await NestFactory.createApplicationContext(SettlingModule, { logger: false });

const lookUp: Recover = ({ key, attempt }) => {
  report({ said: 'lookedUp', key, attempt });
  return readFileSync(ledger, 'utf8').split('\n').includes(key)
    ? { value: { settled: key } }
    : 'run';
};

// Neither a reconciler nor an idle pool keeps a process alive.
process.stdin.resume();

if (role === 'reconciler') {
  app.get(IdempotencyReconciler).register(OPERATION, { lease: { onTakeover: lookUp } });
  app.get(IdempotencyEvents).subscribe(({ type, recordKey }) => {
    report({ said: 'event', type, recordKey });
  });
  report({ said: 'ready' });
} else {
  const service = app.get(IdempotencyService);
  let stopped = 0;
  const stop = async () => {
    stopped += 1;
    if (stopped === calls.length) report({ said: 'stopped' });
    await new Promise(() => undefined);
  };
  await Promise.all(
    calls.map(({ key, stopsAt }) =>
      service.run(
        { operation: OPERATION, key, scope: SCOPE, lease: { onTakeover: lookUp } },
        async () => {
          if (stopsAt === 'before') await stop();
          appendFileSync(ledger, `${key}\n`);
          await stop();
        },
      ),
    ),
  );
}

function report(message: Message): void {
  console.log(JSON.stringify(message));
}
