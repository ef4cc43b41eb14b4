import { Controller, Get, Injectable, Post } from '@nestjs/common';
import { expect, it } from '@jest/globals';
import {
  IdempotencyMeter,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { callingApp } from '../../support/nest/calling-app.js';

@Controller()
class Payments {
  @Post()
  @Idempotent({ operation: 'pay' })
  pay(): void {
    // Never called.
  }

  /** Safe, so never protected. */
  @Get()
  @Idempotent({ operation: 'list' })
  list(): void {
    // Never called.
  }
}

@Injectable()
class Invoices {
  @Idempotent({ operation: 'send', key: (id: string) => id })
  async send(_: string): Promise<void> {
    await Promise.resolve();
  }
}

it('knows the operations of handlers and methods, and registered ones, before their first request', async () => {
  const app = await callingApp(
    { controllers: [Payments], providers: [Invoices] },
    { store: memoryStore(), breaker: true },
  );
  const meter = app.nest.get(IdempotencyMeter, { strict: false });
  const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
  reconciler.register('settle', { lease: { onTakeover: () => 'run' } });
  const { operations, store } = meter.read();
  const requests = [...operations].map(([name, reading]) => [name, reading.requests]);
  expect(requests).toEqual([
    ['pay', { http: { unprotected: 0 } }],
    ['send', { call: { unprotected: 0 } }],
    ['settle', { call: { unprotected: 0 } }],
  ]);
  expect(store.breaker).toBe('closed');
  await app.nest.close();
});

it('says once in the log that it counts further operations together, without their names', async () => {
  const app = await callingApp({});
  const meter = app.nest.get(IdempotencyMeter, { strict: false });
  const service = app.nest.get(IdempotencyService, { strict: false });
  const names = Array.from({ length: 203 }, (_, index) => `invoice ${index}`);
  for (const operation of names) await service.run({ operation, key: 'k', scope: 's' }, () => 1);
  const { operations } = meter.read();
  expect(operations.size).toBe(201);
  expect(operations.get('_OTHER')!.requests.call!.executed).toBe(3);
  const lines = app.log.own.filter((line) => line.includes('idempotency_too_many_operations'));
  expect(lines).toEqual([expect.stringMatching(/^warn: The meter counts 200 operations by name/)]);
  expect(lines[0]).not.toContain('invoice');
  await app.nest.close();
});
