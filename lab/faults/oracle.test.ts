import { beforeEach, describe, expect, it } from '@jest/globals';
import type { ApiResponse } from './response.js';
import { ClientLog } from './client-log.js';
import type { Evidence } from './evidence.js';
import { NOTHING_TOLERATED, type Expectations } from './expectations.js';
import { recordKeyOf } from './extra-executions.js';
import { judge } from './oracle.js';
import type { Effect, EventLine } from './worker/lines.js';

const KEY = 'a key';
const RECORD = recordKeyOf(KEY);

describe('the oracle', () => {
  let evidence: Evidence & { ledger: Effect[]; events: EventLine[]; stuck: string[] };
  let deaths: Map<string, number>;

  beforeEach(() => {
    deaths = new Map();
    evidence = { ledger: [], events: [], clients: new ClientLog(), stuck: [], deaths };
  });

  const effect = (attempt: number, more: Partial<Effect> = {}) => {
    const place = { key: KEY, attempt, fence: attempt, worker: `worker-${attempt}` };
    const execution = `execution ${attempt}`;
    const line = { ...place, execution, isTakeover: false, at: attempt * 1_000, ...more };
    evidence.ledger.push(line);
  };
  const reported = (type: 'takeover' | 'lease_lost' | 'superseded', fence: number) =>
    evidence.events.push({ type, recordKey: RECORD, fence, worker: `worker-${fence}`, at: 0 });
  const began = (attempt: number, at: number) =>
    evidence.events.push({
      type: 'lab:began',
      reply: attempt === 1 ? 'acquired' : 'takeover',
      recordKey: RECORD,
      fence: at * 1_000,
      attempt,
      worker: `worker-${attempt}`,
      at,
    });
  const responded = (attempt: number, more: Partial<ApiResponse> = {}) => {
    const at = attempt * 1_000 + 1;
    evidence.clients.add({
      key: KEY,
      url: 'http://127.0.0.1:1',
      sentAt: at,
      receivedAt: at,
      status: 201,
      replayed: false,
      execution: `execution ${attempt}`,
      digest: `digest ${attempt}`,
      ...more,
    });
  };
  const rejectedAt = (...times: number[]) => {
    const rejection = { status: 409, code: 'idempotency_in_progress', retryAfter: 1 };
    for (const sentAt of times) responded(1, { ...rejection, sentAt, receivedAt: sentAt + 10 });
  };
  const withoutResponse = (error: string) =>
    evidence.clients.add({ key: KEY, url: '', sentAt: 0, receivedAt: 0, replayed: false, error });
  const verdict = (allowed: Partial<Expectations> = {}) =>
    judge(evidence, { ...NOTHING_TOLERATED, ...allowed });
  const objections = (allowed?: Partial<Expectations>) => verdict(allowed).objections;

  it('has nothing to say of a key that ran once and was replayed', () => {
    effect(1);
    responded(1);
    responded(1, { replayed: true });
    responded(2, { status: 409, code: 'idempotency_in_progress', retryAfter: 1 });
    expect(verdict()).toMatchObject({
      objections: [],
      figures: { requests: 3, executions: 1, keysExecutedTwice: 0, keysStuck: 0 },
    });
  });

  it('objects to a second execution that is not tolerated, even if all attempts were notified', () => {
    effect(1);
    effect(2, { isTakeover: true });
    reported('takeover', 2);
    reported('superseded', 1);
    expect(objections()).toEqual([expect.stringContaining('executed again')]);
    expect(objections({ extraExecutions: 'reported to both' })).toEqual([]);
  });

  it('objects to an unreported second execution', () => {
    effect(1);
    effect(2, { isTakeover: true });
    for (const extraExecutions of [
      'never',
      'reported to the second',
      'reported to both',
      'reported to either',
    ] as const) {
      expect(objections({ extraExecutions })).toEqual([expect.stringContaining('not reported')]);
    }
  });

  it('objects to a takeover that only the event knows of, not the operation itself', () => {
    effect(1);
    effect(2, { isTakeover: false });
    reported('takeover', 2);
    expect(objections({ extraExecutions: 'reported to the second' })).toHaveLength(1);
  });

  it('objects to a takeover that was reported only for another attempt', () => {
    effect(1);
    effect(3, { isTakeover: true });
    reported('takeover', 2);
    expect(objections({ extraExecutions: 'reported to the second' })).toHaveLength(1);
  });

  it('objects to a living owner that never learned of its loss', () => {
    effect(1);
    effect(2, { isTakeover: true });
    reported('takeover', 2);
    expect(objections({ extraExecutions: 'reported to both' })).toHaveLength(1);
    expect(objections({ extraExecutions: 'reported to the second' })).toEqual([]);
  });

  it('is not content with what was reported of another attempt, or of another key', () => {
    effect(1);
    effect(2, { isTakeover: true });
    reported('takeover', 1);
    reported('takeover', 3);
    reported('lease_lost', 2);
    evidence.events.push({
      type: 'takeover',
      recordKey: recordKeyOf('another key'),
      fence: 2,
      worker: 'worker-2',
      at: 0,
    });
    expect(objections({ extraExecutions: 'reported to either' })).toHaveLength(1);
  });

  it('objects to one attempt that ran its operation twice, whatever was reported', () => {
    effect(1, { isTakeover: true });
    effect(1, { isTakeover: true, execution: 'the same once more' });
    reported('takeover', 1);
    reported('lease_lost', 1);
    expect(objections({ extraExecutions: 'reported to either' })).toHaveLength(1);
  });

  it('tolerates an unreported execution where the store lost what no attempt is left to know, but not one attempt that ran twice', () => {
    effect(1);
    effect(2);
    expect(objections({ extraExecutions: 'reported to either' })).toHaveLength(1);
    expect(objections({ extraExecutions: 'any' })).toEqual([]);
    effect(2, { execution: 'the same once more' });
    expect(objections({ extraExecutions: 'any' })).toHaveLength(1);
  });

  it('distinguishes a lost outcome, which cannot be detected, from an execution that must be reported', () => {
    effect(1);
    responded(1);
    effect(2);
    const { figures } = verdict({ extraExecutions: 'reported to either' });
    expect(figures).toMatchObject({ lostOutcomes: 1, unreported: 0 });
    expect(objections({ extraExecutions: 'reported to either' })).toHaveLength(1);
    expect(objections({ extraExecutions: 'reported to either', lostOutcomes: true })).toEqual([]);
  });

  it('does not take a success that was seen after the second execution for a lost outcome', () => {
    effect(1);
    effect(2);
    responded(2);
    const { figures } = verdict({ extraExecutions: 'reported to either', lostOutcomes: true });
    expect(figures).toMatchObject({ lostOutcomes: 0, unreported: 1 });
  });

  it.each([
    ['executions', { execution: 'execution 2', digest: 'digest 1' }],
    ['bodies', { execution: 'execution 1', digest: 'digest 2' }],
  ])('objects to different %s as successes of one key', (_, second) => {
    effect(1);
    effect(2, { isTakeover: true });
    reported('takeover', 2);
    responded(1);
    responded(1, { ...second, replayed: true });
    const allowed = { extraExecutions: 'reported to either' } as const;
    expect(objections(allowed)).toEqual([expect.stringContaining('different successes')]);
    expect(objections({ ...allowed, differentSuccesses: true })).toEqual([]);
  });

  it('objects to a success whose effect is not in the ledger', () => {
    responded(1);
    expect(objections()).toEqual([expect.stringContaining('without an effect')]);
  });

  it('objects to a key that is stuck', () => {
    evidence.stuck.push(KEY);
    expect(objections()).toEqual([expect.stringContaining('stuck')]);
  });

  it('objects to a 5xx for a key that is done, and not to one before', () => {
    const unavailable = { status: 503, code: 'idempotency_store_unavailable', retryAfter: 1 };
    const otherResponses = ['503 idempotency_store_unavailable'];
    effect(1);
    responded(0, unavailable);
    responded(1);
    expect(objections({ otherResponses })).toEqual([]);
    responded(2, unavailable);
    expect(objections({ otherResponses })).toEqual([expect.stringContaining('5xx')]);
    expect(objections({ otherResponses, outages: true })).toEqual([]);
  });

  it.each<[string, Partial<ApiResponse>]>([
    ['a status without a code', { status: 500 }],
    ['a code that does not belong there', { status: 409, code: 'idempotency_key_invalid' }],
    ['a problem to retry that does not say when', { status: 409, code: 'idempotency_in_progress' }],
    ['an execution without protection', { status: 201, idempotencyStatus: 'unprotected' }],
  ])('objects to %s', (_, response) => {
    effect(1);
    responded(1, response);
    expect(objections()).toEqual([expect.stringContaining('no client may get')]);
  });

  it('objects to a client that waited in vain', () => {
    withoutResponse('timeout');
    expect(objections({ brokenConnections: true })).toEqual([
      expect.stringContaining('no client may get: timeout'),
    ]);
  });

  it('objects to broken connections where no worker was killed', () => {
    withoutResponse('ECONNRESET');
    expect(objections()).toHaveLength(1);
    expect(objections({ brokenConnections: true })).toEqual([]);
  });

  describe('of a key whose owner died', () => {
    const allowed = { maxBlockedMs: 1_500 };

    it('objects when it was blocked for too long', () => {
      began(1, 0);
      deaths.set('worker-1', 1_000);
      rejectedAt(900, 1_500, 2_600);
      began(2, 2_700);
      rejectedAt(9_000);
      expect(verdict(allowed)).toMatchObject({
        figures: { keysBlocked: 1, longestBlockedMs: 1_600 },
        objections: [expect.stringContaining('blocked for 1600 ms')],
      });
    });

    it('counts from a crash that the worker announced itself', () => {
      began(1, 0);
      evidence.events.push({
        type: 'lab:crash',
        point: 'in_handler',
        worker: 'worker-1',
        at: 1_000,
      });
      rejectedAt(2_400);
      began(2, 2_450);
      expect(verdict(allowed)).toMatchObject({
        figures: { keysBlocked: 1, longestBlockedMs: 1_400 },
        objections: [],
      });
    });

    it('does not count a rejection that its successor may have caused', () => {
      began(1, 0);
      deaths.set('worker-1', 1_000);
      rejectedAt(2_595);
      began(2, 2_600);
      expect(verdict(allowed)).toMatchObject({ figures: { longestBlockedMs: 0 }, objections: [] });
    });

    it('does not count the time without a request', () => {
      began(1, 0);
      deaths.set('worker-1', 1_000);
      rejectedAt(1_100);
      began(2, 60_000);
      expect(verdict(allowed)).toMatchObject({
        figures: { keysBlocked: 1, longestBlockedMs: 100 },
        objections: [],
      });
    });

    it('does not count the time held by an attempt in between whose death was not seen', () => {
      began(1, 0);
      deaths.set('worker-1', 1_000);
      rejectedAt(5_000);
      began(3, 6_000);
      expect(verdict(allowed)).toMatchObject({ figures: { keysBlocked: 0 }, objections: [] });
    });

    it('does not count an attempt that was settled before', () => {
      began(1, 0);
      const place = { recordKey: RECORD, fence: 0, worker: 'worker-1', at: 10 };
      evidence.events.push({ type: 'lab:settled', step: 'release', reply: 'ok', ...place });
      deaths.set('worker-1', 1_000);
      began(2, 9_000);
      expect(verdict(allowed)).toMatchObject({ figures: { keysBlocked: 0 }, objections: [] });
    });
  });
});
