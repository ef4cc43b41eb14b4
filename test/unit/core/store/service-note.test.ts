import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Begin, type BeginReply, DelegatingStore } from 'nestjs-idempotency/store';
import { notedServices, notePlace, ServiceNote } from '../../../support/internals/core.js';
import { DrivenClock } from '../../../support/internals/testing.js';
import { PromptStore } from '../../../support/stores/prompt-store.js';

const DAY_MS = 86_400_000;
const TIMEOUT_MS = 5_000;

class BreakableStore extends PromptStore {
  isBroken = false;

  override begin(command: Begin): Promise<BeginReply> {
    return this.isBroken ? Promise.reject(new Error('planned')) : super.begin(command);
  }
}

describe('The note of a service', () => {
  const clock = new DrivenClock();
  const warnings: string[] = [];
  const notes: ServiceNote[] = [];
  let store: BreakableStore;

  beforeEach(() => {
    clock.stop();
    store = new BreakableStore({ now: () => clock.wallTime() });
    warnings.length = 0;
  });
  afterEach(() => {
    for (const note of notes.splice(0)) note.stop();
    clock.go();
  });

  /** A process of a service. */
  async function started(service: string): Promise<ServiceNote> {
    const wrapped = new DelegatingStore(store);
    const note = new ServiceNote(wrapped, service, clock, ({ code }) => warnings.push(code));
    notes.push(note);
    await note.renew();
    return note;
  }
  const named = () => notedServices(store, TIMEOUT_MS);

  it('is there while a process runs, and for a week after the last one', async () => {
    const shop = await started('shop');
    const billing = await started('billing');
    for (let day = 0; day < 30; day += 1) {
      expect(await named()).toEqual(['billing', 'shop']);
      await clock.advance(DAY_MS);
    }
    shop.stop();
    await clock.advance(6 * DAY_MS);
    expect(await named()).toEqual(['billing', 'shop']);
    await clock.advance(DAY_MS);
    expect(await named()).toEqual(['billing']);
    billing.stop();
    await clock.advance(7 * DAY_MS);
    expect(await named()).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('is one record for all processes, which no list of abandoned records has', async () => {
    for (let process = 0; process < 10; process += 1) await started('shop');
    await clock.advance(3 * DAY_MS);
    expect(await named()).toEqual(['shop']);
    expect(await store.inspect(notePlace(0))).toMatchObject({ state: 'in_progress', note: 'shop' });
    expect(await store.inspect(notePlace(1))).toBeUndefined();
    const listed = await store.abandoned({ overMs: 0, limit: 100, timeoutMs: TIMEOUT_MS });
    expect(listed).toEqual({ records: [] });
  });

  it('has one of 32 places', async () => {
    for (let service = 10; service < 50; service += 1) await started(`service-${service}`);
    const names = await named();
    expect([names.length, names.at(0), names.at(-1)]).toEqual([32, 'service-10', 'service-41']);
    expect(warnings).toEqual([]);
  });

  it('that cannot be written is a warning, and is written within a day', async () => {
    store.isBroken = true;
    await started('shop');
    expect(warnings).toEqual(['service_not_noted']);
    store.isBroken = false;
    expect(await named()).toEqual([]);
    await clock.advance(DAY_MS);
    expect(await named()).toEqual(['shop']);
    expect(warnings).toEqual(['service_not_noted']);
  });
});
