import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ApiResponse } from '../../../lab/faults/response.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { TRANSACTIONAL_POINTS, type Point } from '../../../lab/faults/worker/mishap.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { TransactionalLab } from './support/transactional-lab.js';

/** The last point that leaves nothing, and in `npm run test:all` each of them. */
const POINTS = isTestAll ? TRANSACTIONAL_POINTS : (['before_commit'] as const);

let lab: TransactionalLab;
let survivor: LabWorker;
/** The responses to clients whose first attempt died, by the point of its death. */
const responses = new Map<Point, ApiResponse>();

beforeAll(async () => {
  lab = await TransactionalLab.set();
  survivor = await lab.start();
  await Promise.all(POINTS.map(async (point) => responses.set(point, await crashAt(point))));
}, 120_000);
afterAll(() => lab.clear());

/** The first attempt's worker dies at this point, and its client asks the other one. */
async function crashAt(point: Point): Promise<ApiResponse> {
  const victim = await lab.start();
  const lost = await lab.send(victim, point, { point, action: { kind: 'crash' } });
  expect(lost).toMatchObject({ error: 'ECONNRESET' });
  await victim.untilExit();
  await lab.endLease(point);
  return lab.ask(survivor, point);
}

describe('A transactional worker that dies by kill -9', () => {
  it.each(POINTS.filter((point) => point !== 'in_commit' && point !== 'after_commit'))(
    'at the point %s leaves nothing, and the next attempt does everything [P64]',
    async (point) => {
      const response = responses.get(point);

      expect(response).toMatchObject({ status: 201, replayed: false });
      expect(await lab.effects(point)).toMatchObject([
        { attempt: 2, isTakeover: true, worker: survivor.name, execution: response!.execution },
      ]);
    },
  );

  if (!isTestAll) return;

  it('after COMMIT leaves everything, which is replayed, though no client received it [P65]', async () => {
    const response = responses.get('after_commit');

    expect(response).toMatchObject({ status: 201, replayed: true });
    expect(await lab.effects('after_commit')).toMatchObject([
      { attempt: 1, execution: response!.execution },
    ]);
  });

  it('during COMMIT leaves all or nothing [P69]', async () => {
    const response = responses.get('in_commit');

    expect(response).toMatchObject({ status: 201 });
    expect(await lab.effects('in_commit')).toMatchObject([
      { attempt: response!.replayed ? 1 : 2, execution: response!.execution },
    ]);
  });
});

describe('A transaction whose connection is cut', () => {
  const cutAt = (point: Point) =>
    lab.send(survivor, `cut-${point}`, { point, action: { kind: 'cut' } });

  it('before COMMIT leaves nothing: 503, and a retry may run at once [P68]', async () => {
    const response = await cutAt('before_commit');

    expect(response).toMatchObject({ status: 503, code: 'idempotency_store_unavailable' });
    expect(await lab.effects('cut-before_commit')).toEqual([]);
    const retry = await lab.send(survivor, 'cut-before_commit');
    expect(retry).toMatchObject({ status: 201, replayed: false });
  });

  it('during COMMIT responds with what the record says [P69]', async () => {
    const { status, execution } = await cutAt('in_commit');
    const effects = await lab.effects('cut-in_commit');

    if (status === 201) expect(effects).toMatchObject([{ execution }]);
    else expect({ status, effects }).toEqual({ status: 503, effects: [] });
    expect(await lab.ask(survivor, 'cut-in_commit')).toMatchObject({ status: 201 });
  });
});

it('After any death or break, each key has one row, which is the one that its clients received [P13]', async () => {
  const { objections, figures } = await lab.judge();

  expect(objections).toEqual([]);
  const keys = POINTS.length + 2;
  expect(figures).toMatchObject({ keys, executions: keys, extraExecutions: 0 });
});
