import { Module, type ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  IdempotencyEvents,
  IdempotencyModule,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { nodeClock, type Clock } from '../internals/core.js';
import { CLOCK } from '../internals/nest.js';
import { namedFor } from '../stores/named-for.js';
import { LoggedLines } from './logged-lines.js';

export interface CallingApp {
  readonly nest: TestingModule;
  readonly events: IdempotencyEvent[];
  readonly log: LoggedLines;
}

/** Starts an application without a server, whose services are called. */
export async function callingApp(
  { imports = [], ...metadata }: ModuleMetadata,
  options: Partial<IdempotencyModuleOptions> = {},
  clock: Clock = nodeClock,
): Promise<CallingApp> {
  const { store = memoryStore() } = options;
  const all = {
    store,
    ...namedFor(store),
    // Long enough that a busy machine is not mistaken for an unavailable store.
    ...options,
    storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000, ...options.storeErrors },
  };

  @Module({ imports: [IdempotencyModule.forRoot(all), ...imports], ...metadata })
  class AppModule {}

  const log = new LoggedLines();
  const nest = await Test.createTestingModule({ imports: [AppModule] })
    .setLogger(log)
    .overrideProvider(CLOCK)
    .useValue(clock)
    .compile();
  const events: IdempotencyEvent[] = [];
  nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => events.push(event));
  try {
    await nest.init();
  } catch (error) {
    await nest.close().catch(() => undefined);
    throw error;
  }
  return { nest, events, log };
}

/** The error with which a promise rejects. */
export async function rejection(running: Promise<unknown>): Promise<any> {
  return running.then(
    (value) => {
      throw new Error(`expected a rejection, got ${String(value)}`);
    },
    (error: unknown) => error,
  );
}
