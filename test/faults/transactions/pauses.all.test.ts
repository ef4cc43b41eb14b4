import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { TransactionalLab } from './support/transactional-lab.js';

/** The lease of a locked row cannot be ended by others. */
const LEASE_MS = 2_000;

let lab: TransactionalLab;
let victim: LabWorker;
let survivor: LabWorker;

beforeAll(async () => {
  lab = await TransactionalLab.set();
  [victim, survivor] = await Promise.all([lab.start({ leaseMs: LEASE_MS }), lab.start()]);
}, 60_000);
afterAll(() => lab.clear());

describe('A transactional worker that is paused (SIGSTOP) beyond its lease', () => {
  it('keeps its key as long as its transaction is open, and finishes [P66]', async () => {
    const key = 'paused-in-its-transaction';
    const { paused, meanwhile } = await lab.pauseInTransaction(victim, key, async () => {
      await lab.untilOver(LEASE_MS);
      return lab.send(survivor, key);
    });

    expect(meanwhile).toMatchObject({ status: 409, code: 'idempotency_in_progress' });
    expect(paused).toMatchObject({ status: 201, replayed: false });
    expect(await lab.effects(key)).toMatchObject([
      { attempt: 1, isTakeover: false, execution: paused.execution },
    ]);
  });

  it('before it has locked the record is taken over, and its transaction never begins [P67]', async () => {
    // A record once released is not held any more.
    const another = await lab.start({ leaseMs: LEASE_MS });
    const key = 'paused-before-its-transaction';
    const { paused, meanwhile } = await lab.pauseBeforeTransaction(another, key, async () => {
      await lab.endLease(key);
      return lab.ask(survivor, key);
    });

    expect(meanwhile).toMatchObject({ status: 201, replayed: false });
    expect(paused).toMatchObject({ status: 503, code: 'idempotency_store_unavailable' });
    expect(await lab.effects(key)).toMatchObject([
      { attempt: 2, isTakeover: true, execution: meanwhile.execution },
    ]);
  });

  it('leaves one row for each key [P13]', async () => {
    const { objections, figures } = await lab.judge();

    expect(objections).toEqual([]);
    expect(figures).toMatchObject({ keys: 2, executions: 2 });
  });
});
