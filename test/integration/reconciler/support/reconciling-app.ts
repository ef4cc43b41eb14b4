import type { ModuleMetadata } from '@nestjs/common';
import {
  IdempotencyReconciler,
  IdempotencyService,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import type { Clock } from '../../../support/internals/core.js';
import { callingApp, type CallingApp } from '../../../support/nest/calling-app.js';

export interface ReconcilingApp extends CallingApp {
  readonly reconciler: IdempotencyReconciler;
  readonly service: IdempotencyService;
}

/** An application with the reconciler. It has routes only if `metadata` has controllers. */
export async function reconcilingApp(
  options: IdempotencyModuleOptions,
  metadata: ModuleMetadata = {},
  clock?: Clock,
): Promise<ReconcilingApp> {
  const app = await callingApp(metadata, options, clock);
  return {
    ...app,
    reconciler: app.nest.get(IdempotencyReconciler, { strict: false }),
    service: app.nest.get(IdempotencyService, { strict: false }),
  };
}
