import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { IdempotencyService } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { callingApp, type CallingApp } from '../../test/support/nest/calling-app.js';
import { FaultyStore, unavailable } from '../../test/support/stores/faulty-store.js';
import { Gate } from '../../test/support/waiting/gate.js';
import './channels.js';
import { Backlog } from './backlog.js';
import { IdempotencyAlerts } from './idempotency-alerts.js';

let app: CallingApp;
afterEach(async () => {
  jest.restoreAllMocks();
  await app.nest.close();
});

const run = (operation: () => Promise<void> = () => Promise.resolve()) =>
  app.nest
    .get(IdempotencyService, { strict: false })
    .run({ operation: 'pay', key: randomUUID(), scope: 'alice' }, operation);

describe('The subscriber of the events', () => {
  it('prints those that are critical, and no others', async () => {
    const store = new FaultyStore(memoryStore());
    const options = { store, storeErrors: { whenUnavailable: 'execute' } } as const;
    app = await callingApp({ providers: [IdempotencyAlerts] }, options);
    const print = jest.spyOn(console, 'error').mockReturnValue(undefined);
    await run();
    expect(app.events.map(({ type }) => type)).toContain('completed');
    expect(print).not.toHaveBeenCalled();
    store.next('begin', unavailable);
    await run();
    // The listener of the channel, too.
    expect(print.mock.calls).toEqual([
      ['unprotected', 'pay'],
      ['unprotected', 'pay'],
    ]);
  });
});

describe('The listener of a channel', () => {
  it('prints its events, without an instance of the application', async () => {
    const store = new FaultyStore(memoryStore());
    app = await callingApp({}, { store, storeErrors: { whenUnavailable: 'execute' } });
    const print = jest.spyOn(console, 'error').mockReturnValue(undefined);
    await run();
    expect(print).not.toHaveBeenCalled();
    store.next('begin', unavailable);
    await run();
    expect(print.mock.calls).toEqual([['unprotected', 'pay']]);
  });
});

describe('The reader of the meter', () => {
  it('prints what each operation is doing', async () => {
    app = await callingApp({ providers: [Backlog] });
    const print = jest.spyOn(console, 'log').mockReturnValue(undefined);
    const gate = Gate.closed();
    const started = Gate.closed();
    const running = run(() => {
      started.open();
      return gate.pass();
    });
    await started.pass();
    app.nest.get(Backlog).report();
    gate.open();
    await running;
    app.nest.get(Backlog).report();
    expect(print.mock.calls).toEqual([
      ['pay', 1, 0, 0],
      ['pay', 0, 0, 0],
    ]);
  });
});
