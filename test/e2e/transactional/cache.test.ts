import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyService,
  requireIdempotencyTransaction,
  type IdempotencyContext,
  type IdempotencyEvent,
} from 'nestjs-idempotency';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { useBank } from './support/bank.js';
import type { Transaction } from './support/transfers.controller.js';

const bank = useBank();

describe('A transactional call with the local cache', () => {
  let app: TestApp;
  let service: IdempotencyService;
  const events: IdempotencyEvent[] = [];

  beforeAll(async () => {
    app = await startApp({
      platform: 'fastify',
      controllers: [],
      store: bank.newStore(),
      options: {
        unitOfWork: bank.unitOfWork,
        commandTimeoutMs: 5_000,
        saveTimeoutMs: 5_000,
        cache: true,
      },
    });
    service = app.nest.get(IdempotencyService, { strict: false });
    app.nest.get(IdempotencyEvents).subscribe((event) => void events.push(event));
  });
  afterAll(() => app.close());

  it('is replayed from it once it is committed, and never what was rolled back', async () => {
    const key = randomUUID();
    const call = { operation: 'transfers.book', key, scope: 'alice', transactional: true } as const;
    const book = async ({ attempt }: IdempotencyContext) => {
      const transaction = requireIdempotencyTransaction<Transaction>();
      await transaction.query('INSERT INTO transfers VALUES ($1, $2)', [key, attempt]);
      if (attempt === 1) throw new Error('no cover');
      return { attempt };
    };
    await expect(service.run(call, book)).rejects.toThrow('no cover');
    for (let time = 0; time < 3; time += 1) {
      expect(await service.run(call, book)).toEqual({ attempt: 2 });
    }
    const { rows } = await bank.observer.query('SELECT execution FROM transfers WHERE key = $1', [
      key,
    ]);
    expect(rows).toEqual([{ execution: 2 }]);
    expect(
      events.map((event) => (event.type === 'replayed' ? event.fromCache : event.type)),
    ).toEqual(['acquired', 'released', 'acquired', 'completed', false, true]);
  });
});
