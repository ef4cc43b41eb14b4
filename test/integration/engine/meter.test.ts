import { describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, IdempotencyMeter } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { newCall } from '../../support/engine/caller.js';
import { EventTally, numbersOf } from '../../support/engine/event-tally.js';
import { noServices } from '../../support/engine/protocol-options.js';
import {
  IdempotencyEngine,
  DEFAULT_LIMITS,
  type ProtocolOptions,
} from '../../support/internals/core.js';
import { CallTransport } from '../../support/internals/call.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';

class MeteredCalls {
  readonly meter = new IdempotencyMeter();
  readonly events = new IdempotencyEvents(this.meter);
  readonly store = new FaultyStore(memoryStore());
  private readonly engine = new IdempotencyEngine(this.store, this.events, DEFAULT_LIMITS);
  private readonly calls = new CallTransport(this.engine, noServices);

  constructor() {
    this.meter.readFrom(this.engine);
  }

  async call(options: ProtocolOptions, operation: () => unknown, call = newCall(options)) {
    return { call, result: await this.calls.settle(call, operation) };
  }

  read() {
    return numbersOf(this.meter.read());
  }
}

const failing = () => {
  throw new Error('planned');
};

/** Requests that end in different ways. */
async function send(calls: MeteredCalls): Promise<void> {
  const { call } = await calls.call({}, () => 1);
  await calls.call({}, () => 1, call);
  await calls.call({}, () => 1, { ...call, fingerprint: newCall().fingerprint.slice(1) as never });
  await calls.call({}, failing);
  await calls.call(
    {},
    failing,
    newCall({}, () => true),
  );
  calls.store.next('begin', unavailable, unavailable);
  await calls.call({}, () => 1);
  await calls.call({ storeErrors: { whenUnavailable: 'execute' } }, () => 1);
  const gate = Gate.closed();
  const waiting = newCall({ duplicates: { mode: 'wait' } });
  const first = calls.call({}, () => gate.pass(), waiting);
  await until(() => calls.read()['pay running'] === 1);
  const second = calls.call({}, failing, waiting);
  await until(() => calls.read()['pay waiting'] === 1);
  await calls.call({}, failing, { ...waiting, waitAtMostMs: 0 });
  gate.open();
  await Promise.all([first, second]);
  await until(() => calls.read()['pay running'] === undefined);
}

const EXPECTED = {
  'pay requests call executed': 4,
  'pay requests call replayed': 2,
  'pay requests call mismatch': 1,
  'pay requests call in_progress': 1,
  'pay requests call store_unavailable': 1,
  'pay requests call unprotected': 1,
  'pay incidents unprotected': 1,
  'pay attempts kept': 4,
  'pay attempts released': 1,
  'pay waits outcome': 1,
};

describe('the meter', () => {
  it('counts requests without a subscriber', async () => {
    const calls = new MeteredCalls();
    await send(calls);
    expect(calls.read()).toEqual(EXPECTED);
  });

  it('counts the same with a subscriber, and what the events say', async () => {
    const calls = new MeteredCalls();
    const tally = new EventTally();
    calls.events.subscribe((event) => {
      tally.add(event);
    });
    await send(calls);
    expect(calls.read()).toEqual(EXPECTED);
    expect(tally.numbers).toEqual(EXPECTED);
  });
});
