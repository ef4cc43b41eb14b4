import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { IdempotencyEvent } from 'nestjs-idempotency';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { OPERATION } from '../../../lab/faults/worker/settings.js';
import {
  describeWithPromtool,
  testRules,
  type Labels,
  type RuleTest,
} from '../../support/prometheus/promtool.js';
import { queriesOf, readDashboard } from '../../support/prometheus/dashboard.js';
import { readRules, rulesIn } from '../../support/prometheus/rules.js';
import { TransactionalLab } from '../transactions/support/transactional-lab.js';
import { keys, Scene } from './support/scene.js';
import { JOB, scrape, seriesOf, valueIn, type Round } from './support/scrapes.js';

jest.setTimeout(60_000);

const RULES = readRules();
const LIMIT_MS = 20_000;
const SHORT_LEASE = { duration: 1_000 };
/** Responses do not wait for a server that rejects what is saved. */
const SAVES_SOON = { saveTimeout: 200 };
/** The server does not reply any more. */
const GONE = { commandTimeout: 1_000, saveTimeout: 1_000 };

const ON_OPERATION = { job: JOB, idempotency_operation_name: OPERATION };

/** Which alerts have fired in the tests so far, and on what series. */
const fired = new Set<string>();
const scraped: Record<string, string> = {};

/** The alerts on these scrapes, from the first to the last, are exactly these. */
async function expectAlerts(
  rounds: readonly Round[],
  minutes: readonly number[],
  expected: Readonly<Record<string, Labels>>,
): Promise<void> {
  expect(minutes).toHaveLength(rounds.length);
  const length = `${minutes.reduce((sum, one) => sum + one, 0) - 1}m`;
  const severities = new Map(rulesIn(RULES).map(({ alert, labels }) => [alert, labels.severity]));
  const alerts = Object.entries(expected).map(([alertname, labels]) => ({
    alertname,
    severity: severities.get(alertname)!,
    ...labels,
  }));
  const test: RuleTest = {
    name: 'scrapes',
    series: seriesOf(rounds, minutes),
    moments: [
      // The first scrape is from before the fault.
      { time: `${minutes[0]! - 1}m`, within: length, alerts: [] },
      { time: length, within: length, alerts },
    ],
  };
  expect(await testRules(RULES, [test])).toBe('');
  for (const alert of Object.keys(expected)) fired.add(alert);
  Object.assign(scraped, test.series);
}

describeWithPromtool('On the metrics of real processes,', () => {
  let lab: Lab;
  let scene: Scene;
  beforeAll(async () => {
    lab = await Lab.set();
  }, 60_000);
  afterAll(() => lab.clear());
  beforeEach(async () => {
    scene = await Scene.open(lab);
  }, 60_000);
  afterEach(() => scene.close());

  const untilReported = ({ name }: LabWorker, type: IdempotencyEvent['type']) =>
    lab.untilReported((line) => line.worker === name && line.type === type);

  /** A key is held by one worker, and another one completes it. */
  async function overtaken(
    key: string,
    meanwhile: (other: LabWorker) => Promise<unknown> = async () => undefined,
  ) {
    const start = () => scene.worker({ options: { lease: SHORT_LEASE } });
    const [paused, other] = await Promise.all([start(), start()]);
    await scene.scrape();
    const { responses } = await scene.held(paused, [key]);
    paused.stop();
    await lab.client.ask(() => [other.url], key, { limitMs: LIMIT_MS });
    await meanwhile(other);
    paused.continue();
    paused.releaseUnowned();
    await responses;
    await scene.scrape();
  }

  it('IdempotencyEffectMayHaveHappenedTwice fires when a process is paused for longer than its lease', async () => {
    await overtaken('paused');
    expect(lab.effects('paused')).toHaveLength(2);
    await expectAlerts(scene.rounds, [10, 20], {
      IdempotencyEffectMayHaveHappenedTwice: {
        ...ON_OPERATION,
        idempotency_incident_type: 'superseded',
      },
    });
  });

  it('IdempotencyEffectMayHaveHappenedTwice fires when its record is evicted meanwhile, and its key reused', async () => {
    const key = 'evicted';
    await overtaken(key, async (other) => {
      await scene.admin.flushall();
      const [reused] = await scene.send(other, [key], { bytes: 3 });
      expect(reused).toMatchObject({ status: 201, replayed: false });
    });
    await expectAlerts(scene.rounds, [10, 20], {
      IdempotencyEffectMayHaveHappenedTwice: {
        ...ON_OPERATION,
        idempotency_incident_type: 'outcome_diverged',
      },
    });
  });

  it('IdempotencyRecordLost fires when the store is flushed', async () => {
    const worker = await scene.worker();
    await scene.scrape();
    const { responses } = await scene.held(worker, ['flushed']);
    await scene.admin.flushall();
    worker.releaseUnowned();
    expect(await responses).toMatchObject([{ status: 201 }]);
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 20], { IdempotencyRecordLost: ON_OPERATION });
  });

  it('IdempotencyOutcomeNotStored fires when the store refuses to save until the deadline', async () => {
    const lease = { duration: 1_000, maxExecution: 6_000 };
    const worker = await scene.worker({ options: { lease, storeErrors: SAVES_SOON } });
    await scene.scrape();
    const { responses } = await scene.held(worker, ['refused']);
    await scene.rejectWrites();
    worker.releaseUnowned();
    expect(await responses).toMatchObject([{ status: 201 }]);
    await untilReported(worker, 'save_failed');
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 20], {
      IdempotencyOutcomeNotStored: ON_OPERATION,
      // An attempt that still saves has not ended.
      IdempotencyAttemptsNearDeadline: ON_OPERATION,
    });
  });

  it('IdempotencyOutcomeUnreadable fires when a process lacks the key that another one encrypts by', async () => {
    const writer = await scene.worker({ secrets: { current: 'new', known: ['old', 'new'] } });
    const late = await scene.worker({ secrets: { current: 'old', known: ['old'] } });
    await scene.scrape();
    expect(await scene.send(writer, ['sealed'])).toMatchObject([{ status: 201 }]);
    expect(await scene.send(late, ['sealed'])).toMatchObject([
      { status: 503, code: 'idempotency_outcome_unavailable' },
    ]);
    await scene.scrape();
    expect(lab.effects('sealed')).toHaveLength(1);
    await expectAlerts(scene.rounds, [10, 20], {
      IdempotencyOutcomeUnreadable: {
        ...ON_OPERATION,
        idempotency_incident_type: 'outcome_unreadable',
      },
    });
  });

  it('IdempotencySaveSlow fires when the store refuses to save for a while', async () => {
    const worker = await scene.worker({ options: { storeErrors: SAVES_SOON } });
    await scene.scrape();
    const { responses } = await scene.held(worker, keys('slow', 6));
    await scene.rejectWrites();
    worker.releaseUnowned();
    await responses;
    await scene.acceptWrites();
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 20], { IdempotencySaveSlow: { job: JOB } });
  });

  it('IdempotencyStoreUnavailable fires when the store is stopped', async () => {
    const worker = await scene.worker({ options: { storeErrors: GONE } });
    await scene.send(worker, keys('before', 5));
    await scene.scrape();
    await scene.redis.stop();
    await scene.send(worker, keys('first', 5));
    await scene.scrape();
    const responses = await scene.send(worker, keys('later', 10));
    for (const response of responses) expect(response).toMatchObject({ status: 503 });
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 3, 20], { IdempotencyStoreUnavailable: { job: JOB } });
  });

  it('IdempotencyUnprotectedRuns fires when operations run without the store', async () => {
    const whenUnavailable = 'execute';
    const storeErrors = { ...GONE, whenUnavailable } as const;
    const worker = await scene.worker({ options: { storeErrors } });
    await scene.scrape();
    await scene.redis.stop();
    expect(await scene.send(worker, ['alone'])).toMatchObject([{ status: 201 }]);
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 20], { IdempotencyUnprotectedRuns: ON_OPERATION });
  });

  it('IdempotencyBreakerOpen fires when the store stays stopped', async () => {
    const breaker = { volumeThreshold: 2, window: 60_000, probeInterval: 100 };
    const worker = await scene.worker({ options: { storeErrors: GONE, breaker } });
    await scene.scrape();
    await scene.redis.stop();
    await scene.send(worker, keys('first', 5));
    await untilReported(worker, 'breaker_opened');
    await scene.scrape();
    await scene.send(worker, keys('later', 10));
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 3, 20], {
      IdempotencyBreakerOpen: { job: JOB, instance: worker.name },
      IdempotencyStoreUnavailable: { job: JOB },
    });
  });

  /** A worker dies in the middle of an attempt; another one, with this function, reconciles. */
  async function abandoned(key: string, onTakeover?: 'throw') {
    const reconcile = { interval: 100, after: 0 };
    const reconciler = await scene.worker({
      options: { reconcile, lease: SHORT_LEASE },
      ...(onTakeover && { onTakeover }),
    });
    await scene.scrape();
    const victim = await scene.worker({ options: { lease: SHORT_LEASE }, onTakeover: 'run' });
    const { responses } = await scene.held(victim, [key]);
    await lab.kill(victim);
    await responses;
    return (round: Round, result: string) =>
      valueIn(round, reconciler.name, 'idempotency_reconciled_records_total', `"${result}"`);
  }

  it('IdempotencyKeysAbandoned fires when the reconciler does not know how to settle a key', async () => {
    const count = await abandoned('abandoned');
    for (let scrapes = 1; scrapes <= 3; scrapes += 1) {
      const before = count(scene.rounds.at(-1)!, 'unknown');
      await scene.scrapeUntil((round) => count(round, 'unknown') > before);
    }
    await expectAlerts(scene.rounds, [5, 10, 10, 15], { IdempotencyKeysAbandoned: { job: JOB } });
  });

  it('IdempotencyRecoveryFailed fires when onTakeover throws', async () => {
    const count = await abandoned('unrecoverable', 'throw');
    await scene.scrapeUntil((round) => count(round, 'failed') >= 1);
    await expectAlerts(scene.rounds, [10, 20], { IdempotencyRecoveryFailed: ON_OPERATION });
  });

  it('IdempotencySetupMistaken fires when a client sends its keys under another name', async () => {
    const worker = await scene.worker();
    await scene.send(worker, keys('right', 20));
    await scene.scrape();
    const misnamed = { 'X-Idempotency-Key': 'the key' };
    expect(await scene.sendWithoutKey(worker, 1, misnamed)).toEqual([400]);
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 20], {
      IdempotencySetupMistaken: { ...ON_OPERATION, idempotency_incident_type: 'key_misnamed' },
    });
  });

  it('IdempotencyTakeoversHigh fires when a process dies with its attempts', async () => {
    const start = () => scene.worker({ options: { lease: SHORT_LEASE } });
    const [victim, survivor] = await Promise.all([start(), start()]);
    const orphans = keys('orphan', 6);
    await scene.send(survivor, keys('before', 20));
    await scene.scrape();
    const { responses } = await scene.held(victim, orphans);
    await lab.kill(victim);
    await responses;
    const asked = orphans.map((key) =>
      lab.client.ask(() => [survivor.url], key, { limitMs: LIMIT_MS }),
    );
    for (const { status } of await Promise.all(asked)) expect(status).toBe(201);
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 25], { IdempotencyTakeoversHigh: ON_OPERATION });
  });

  it('IdempotencyKeyMismatchHigh fires when a client reuses a key', async () => {
    const worker = await scene.worker();
    const reuse = async (count: number) => {
      const responses = await scene.send(worker, new Array<string>(count).fill('same'), {
        bytes: 3,
      });
      for (const response of responses) expect(response).toMatchObject({ status: 422 });
      await scene.scrape();
    };
    await scene.send(worker, ['same']);
    await scene.scrape();
    await reuse(5);
    await reuse(15);
    await expectAlerts(scene.rounds, [5, 5, 30], { IdempotencyKeyMismatchHigh: ON_OPERATION });
  });

  it('IdempotencyClientsWithoutKey fires when a client sends no keys', async () => {
    const worker = await scene.worker();
    await scene.send(worker, ['with']);
    await scene.scrape();
    for (const count of [5, 15]) {
      expect(new Set(await scene.sendWithoutKey(worker, count))).toEqual(new Set([400]));
      await scene.scrape();
    }
    await expectAlerts(scene.rounds, [5, 5, 30], { IdempotencyClientsWithoutKey: ON_OPERATION });
  });

  it('IdempotencyAttemptsNearDeadline fires when a handler hangs', async () => {
    const lease = { duration: 1_000, maxExecution: 6_000 };
    const worker = await scene.worker({ options: { lease } });
    await scene.scrape();
    const { responses } = await scene.held(worker, ['hung']);
    await untilReported(worker, 'slow_attempt');
    worker.releaseUnowned();
    expect(await responses).toMatchObject([{ status: 201 }]);
    await scene.scrape();
    await expectAlerts(scene.rounds, [10, 20], { IdempotencyAttemptsNearDeadline: ON_OPERATION });
  });

  describe('with transactions', () => {
    let transactional: TransactionalLab;
    beforeAll(async () => {
      transactional = await TransactionalLab.set();
    }, 120_000);
    afterAll(() => transactional.clear());

    it('IdempotencyCommitFailed fires when the connection breaks before COMMIT', async () => {
      const worker = await transactional.start({ metrics: true });
      // The other workers have the same names.
      const targets = [{ name: 'transactional', url: worker.url, isRunning: true }];
      const rounds = [await scrape(targets)];
      const cut = { point: 'before_commit', action: { kind: 'cut' } } as const;
      expect(await transactional.send(worker, 'cut', cut)).toMatchObject({ status: 503 });
      rounds.push(await scrape(targets));
      await expectAlerts(rounds, [10, 20], {
        IdempotencyCommitFailed: { ...ON_OPERATION, idempotency_incident_type: 'rolled_back' },
      });
    });
  });

  it('no alert fires under healthy load, in 20 minutes', async () => {
    const rejecting = await scene.worker({ effectDelayMs: 20 });
    const waiting = await scene.worker({ effectDelayMs: 20, options: { duplicates: 'wait' } });
    const SCRAPES = 80;
    for (let round = 0; round < SCRAPES; round += 1) {
      const fresh = keys(`healthy-${round}`, 10);
      const duplicates = fresh.slice(0, 2);
      await Promise.all(
        [rejecting, waiting].map(async (worker, index) => {
          const own = fresh.map((key) => `${key}-${index}`);
          const doubled = duplicates.map((key) => `${key}-${index}`);
          await Promise.all([scene.send(worker, own), scene.send(worker, doubled)]);
          await scene.send(worker, own.slice(0, 5));
        }),
      );
      // Mistakes of single clients.
      if (round % 20 === 10) {
        await scene.send(rejecting, [`healthy-${round}-0-0`], { bytes: 3 });
        await scene.sendWithoutKey(waiting, 2);
      }
      await scene.scrape();
    }

    const last = scene.rounds.at(-1)!;
    const count = (result: string) =>
      valueIn(last, rejecting.name, 'idempotency_requests_total', `"${result}"`) +
      valueIn(last, waiting.name, 'idempotency_requests_total', `"${result}"`);
    expect(count('executed')).toBe(SCRAPES * 20);
    expect(count('replayed')).toBeGreaterThanOrEqual(SCRAPES * 10);
    expect(count('in_progress')).toBeGreaterThan(SCRAPES);
    expect(count('mismatch')).toBe(4);
    expect(count('key_missing')).toBe(8);
    const test: RuleTest = {
      name: 'healthy',
      interval: '15s',
      series: seriesOf(scene.rounds, new Array<number>(SCRAPES).fill(1)),
      moments: (['firing', 'pending'] as const).map((state) => ({
        time: '20m',
        within: '20m',
        state,
        alerts: [],
      })),
    };
    expect(await testRules(RULES, [test])).toBe('');

    Object.assign(scraped, seriesOf(scene.rounds.slice(0, 40), new Array<number>(40).fill(1)));

    // The same scrapes are enough for a rule that this load does meet.
    const [rule] = rulesIn(RULES);
    const met = {
      ...rule!,
      expr: 'sum by (job) (increase(idempotency_requests_total[10m])) > 1000',
    };
    const rules = { groups: [{ name: 'met', rules: [met] }] };
    expect(await testRules(rules, [test])).not.toBe('');
  }, 120_000);

  it('large outcomes are seen while they are put and got, and while their store is away', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'idempotency-alerts-'));
    const worker = await scene.worker({
      blobs: { kind: 'file', directory },
      // The others wait.
      options: { outcome: { offload: { aboveBytes: 1_000 } }, limits: { maxUploads: 1 } },
    });
    const large = keys('large', 4);
    await scene.send(worker, keys('before', 4), { bytes: 5_000 });
    await scene.scrape();
    for (const replayed of [false, true]) {
      const sent = await scene.send(worker, large, { bytes: 5_000 });
      for (const response of sent) expect(response).toMatchObject({ status: 201, replayed });
    }
    await rm(directory, { recursive: true });
    // No directory can be made in a file.
    await writeFile(directory, '');
    const [unsaved] = await scene.send(worker, ['unsaved'], { bytes: 5_000 });
    expect(unsaved).toMatchObject({ status: 201 });
    // Once more: a reason has no series before its first time.
    for (const key of large.slice(0, 2)) {
      const [lost] = await scene.send(worker, [key], { bytes: 5_000 });
      expect(lost!.status).toBeGreaterThanOrEqual(500);
      await scene.scrape();
    }
    await rm(directory);
    Object.assign(scraped, seriesOf(scene.rounds, [10, 1, 20]));
  });

  it('every alert has fired, and each query of the dashboard has had a value', async () => {
    expect([...fired].sort()).toEqual(
      rulesIn(RULES)
        .map(({ alert }) => alert)
        .sort(),
    );
    const all = { job: '.*', operation: '.*', __rate_interval: '5m' };
    const exprs = queriesOf(readDashboard(), all).map(({ expr }) => expr);
    // Most faults have just been scraped by then.
    const queries = { time: '12m', exprs };
    const test: RuleTest = { name: 'dashboard', series: scraped, queries, moments: [] };
    expect(await testRules(RULES, [test])).toBe('');
  });
});
