import { Module, type Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  IdempotencyEvents,
  IdempotencyModule,
  IdempotencyReconciler,
  IdempotencyService,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { LoggedLines } from '../../nest/support/logged-lines.js';

export interface ReconcilingApp {
  readonly nest: TestingModule;
  readonly reconciler: IdempotencyReconciler;
  readonly service: IdempotencyService;
  readonly events: IdempotencyEvent[];
  readonly log: LoggedLines;
}

/** An application that reconciles, without routes unless `controllers` says so. */
export async function reconcilingApp(
  options: IdempotencyModuleOptions,
  { controllers = [], providers = [] }: { controllers?: Type[]; providers?: Type[] } = {},
): Promise<ReconcilingApp> {
  @Module({ imports: [IdempotencyModule.forRoot(options)], controllers, providers })
  class AppModule {}

  const log = new LoggedLines();
  const nest = await Test.createTestingModule({ imports: [AppModule] })
    .setLogger(log)
    .compile();
  const events: IdempotencyEvent[] = [];
  nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => events.push(event));
  try {
    await nest.init();
  } catch (error) {
    await nest.close().catch(() => undefined);
    throw error;
  }
  return {
    nest,
    reconciler: nest.get(IdempotencyReconciler, { strict: false }),
    service: nest.get(IdempotencyService, { strict: false }),
    events,
    log,
  };
}
