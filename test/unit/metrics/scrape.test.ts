import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyMeter,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { Registry } from 'prom-client';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import { count, executed, subject } from '../../support/metrics/counted.js';

const SCRAPE = new URL('scrape.txt', import.meta.url);

it('a scrape has these bytes: names, help texts, labels, bounds, and the order of all of them', async () => {
  const clock = new StandingClock();
  const meter = new IdempotencyMeter(undefined, clock);
  meter.readFrom({
    running: () => [{ subject: subject, elapsedMs: 1, leaseLeftMs: 2 }],
    waiting: () => [{ operation: 'invoice.send' }],
    store: { system: 'postgresql', breaker: 'half_open', deletedRecords: 3, missedEntries: 2 },
  });
  meter.declare('pay', 'http');
  const report = { completed: 1, released: 0, overtaken: 2, failed: 0, unknown: 0 };
  // None of them in the order of the scrape.
  count(
    meter,
    { type: 'reconciled', report },
    { type: 'replayed', operation: 'invoice.send', transport: 'call' },
    { type: 'unprotected', reason: 'disabled' },
    { type: 'rejected', reason: 'too_many_attempts' },
    { type: 'invalid_request', reason: 'key_missing', transport: 'websocket' },
    { ...executed(70), how: 'unsaved' },
    executed(5),
    { ...executed(2), how: 'not_started' },
    { type: 'waited', end: 'process_full', waitedMs: 0 },
    { type: 'waited', end: 'outcome', waitedMs: 400_000 },
    { type: 'key_misnamed' },
    { type: 'lease_lost', reason: 'expired' },
    { type: 'takeover' },
    { type: 'outcome_unreadable', reason: 'integrity' },
    { type: 'outcome_unreadable', reason: 'key' },
    { type: 'unprotected', reason: 'store_unavailable' },
  );
  const sentAt = clock.now();
  clock.block(1.5);
  meter.commandFailed('complete', sentAt, new StoreOutcomeUnknownError());
  meter.commandFailed('complete', sentAt, new StoreUnavailableError());
  meter.commandReplied('complete', sentAt);
  meter.commandReplied('begin', sentAt);
  meter.blobMoved('get', 'failed', 0, 10_000);
  meter.blobMoved('put', 'ok', 300_000, 40);
  meter.uploadWaited('timeout', 60_000);
  meter.recordMoved('get', 310);
  const registry = new Registry();
  const stop = prometheus({ registry }).start({ events: new IdempotencyEvents(meter), meter });
  const text = await registry.metrics();
  stop();
  expect(text).toBe(readFileSync(SCRAPE, 'utf8'));
});
