import 'reflect-metadata';
import { hash } from 'node:crypto';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { IdempotencyEvents, IdempotencyModule, staticKeys } from 'nestjs-idempotency';
import { CallerGuard } from './caller.guard.js';
import { EffectsController } from './effects.controller.js';
import { LineFile } from './line-file.js';
import { ARRIVAL } from './mishap.js';
import { Mishaps } from './mishaps.js';
import { MUTANTS } from './mutants.js';
import { ObservedBlobs } from './observed-blobs.js';
import { ObservedStore } from './observed-store.js';
import { ObservedUnitOfWork } from './observed-unit-of-work.js';
import { openBlobs } from './open-blobs.js';
import { openStore } from './open-store.js';
import { recordEvents } from './record-events.js';
import {
  MISHAP_HEADER,
  SERVICE,
  SETTINGS_VARIABLE,
  WORKER_SETTINGS,
  type ListeningMessage,
  type SecretsSettings,
  type WorkerSettings,
} from './settings.js';

const settings = JSON.parse(process.env[SETTINGS_VARIABLE] ?? '') as WorkerSettings;
const { name, options = {}, secrets, onTakeover } = settings;
const events = new LineFile(settings.eventsFile);
const mishaps = new Mishaps(name, events);
const mutant = settings.mutant && MUTANTS[settings.mutant];
const realStore = openStore(settings.store);
const store = new ObservedStore(mutant?.store?.(realStore) ?? realStore, name, events, mishaps);
const blobs = settings.blobs && new ObservedBlobs(await openBlobs(settings.blobs), mishaps);
const transactional = await openTransactions();
const metrics = settings.metrics ? (await import('./metrics.js')).openMetrics() : undefined;

@Module({})
class WorkerModule {}

const app = await NestFactory.create<NestFastifyApplication>(
  {
    module: WorkerModule,
    imports: [
      IdempotencyModule.forRoot({
        ...options,
        ...(onTakeover && { lease: { ...options.lease, onTakeover: recover } }),
        ...(secrets && { secrets: keysOf(secrets), protectDigests: 'digestKeys' in secrets }),
        ...(blobs && { blobs }),
        store,
        service: SERVICE,
        ...(transactional && { unitOfWork: transactional.unitOfWork }),
        ...(metrics && { telemetry: metrics.telemetry }),
      }),
    ],
    controllers: [transactional?.controller ?? EffectsController],
    providers: [
      { provide: WORKER_SETTINGS, useValue: settings },
      { provide: LineFile, useValue: new LineFile(settings.ledgerFile) },
      { provide: Mishaps, useValue: mishaps },
    ],
  },
  new FastifyAdapter(),
  { logger: ['error', 'warn'] },
);
recordEvents(app.get(IdempotencyEvents), events, name);
app.useGlobalGuards(new CallerGuard());
// After the body was read: its events come from outside of the request's own context.
app
  .getHttpAdapter()
  .getInstance()
  .addHook('preHandler', (request, _reply, done) => {
    const header = request.headers[MISHAP_HEADER];
    mishaps.run(typeof header === 'string' ? header : undefined, () => {
      void mishaps.at(ARRIVAL).then(() => done());
    });
  });
metrics?.serve(app);
app.enableShutdownHooks(['SIGTERM']);
await app.listen(0, '127.0.0.1');

// Started with a channel to its parent, the process does not outlive it.
process.once('disconnect', () => process.exit());
process.send?.({ listening: await app.getUrl() } satisfies ListeningMessage);

/** As `lease.onTakeover`. */
function recover(): 'run' {
  if (onTakeover === 'throw') throw new Error('as its settings demand');
  return 'run';
}

function keysOf({ current, known, digestKeys }: SecretsSettings) {
  const keys = known.map((id) => [id, hash('sha256', id, 'buffer')] as const);
  return staticKeys({
    current,
    keys: Object.fromEntries(keys),
    ...(digestKeys && { digestKeys }),
  });
}

/** What only transactional workers load. */
async function openTransactions() {
  if (!settings.transactional || settings.store.kind !== 'postgres') return undefined;
  const { TransactionalEffectsController: controller } =
    await import('./transactional-effects.controller.js');
  const { openUnitOfWork } = await import('./open-unit-of-work.js');
  const unitOfWork = openUnitOfWork(settings.store.url, mutant);
  return { controller, unitOfWork: new ObservedUnitOfWork(unitOfWork, mishaps) };
}
