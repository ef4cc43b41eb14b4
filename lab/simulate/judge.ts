import { ClientLog } from '../faults/client-log.js';
import type { Evidence } from '../faults/evidence.js';
import type { Expectations } from '../faults/expectations.js';
import type { RecordKey } from '../../test/support/internals/core.js';
import { judge } from '../faults/oracle.js';
import type { ApiResponse } from '../faults/response.js';
import type { Fault } from './plan.js';
import type { World } from './world/world.js';

/** Faults after which the store, or a process, may be unavailable. */
const OUTAGES: readonly Fault[] = [
  'pause',
  'block',
  'drain',
  'lost request',
  'lost reply',
  'copy',
  'late copy',
  'slow network',
  'cut',
  'black hole',
  'rejection',
  'clock step',
  'restart',
  'data loss',
  'failover',
];

/** Faults after which a connection of a client breaks. */
const BREAKING: readonly Fault[] = ['crash', 'drain', 'client leaves'];

/** What operations respond by themselves. */
const OWN = ['402 declined', '402 declined replay', '500 failed'];

/** What code around a handler responds, and what its failures become. */
const SURROUNDING = ['400 invalid', '500 broken', '500 broken replay', '504 timeout'];

const UNPROTECTED = [
  '201',
  '201 replay',
  '402 declined',
  '402 declined replay',
  '500 failed',
  '500 broken',
  '400 invalid',
].map((name) => `${name} unprotected`);

/** How long a duplicate may wait after the outcome was stored: for a notification, or for a poll. */
const NOTIFIED_MS = 60;
const POLLED_MS = 300;

/** Judges an episode by the ledger and by what clients got, key by key: each is allowed what happened to it, and no more. */
export function objectionsTo(world: World, stuck: readonly string[]): string[] {
  const groups = new Map<string, { allowed: Expectations; keys: Set<string> }>();
  for (const key of world.intents.keys()) {
    const allowed = expectationsOf(world, key);
    const name = JSON.stringify(allowed);
    const group = groups.get(name) ?? { allowed, keys: new Set() };
    groups.set(name, group);
    group.keys.add(key);
  }
  const objections: string[] = [];
  for (const { allowed, keys } of groups.values()) {
    const verdict = judge(evidenceOf(world, keys, stuck), allowed);
    objections.push(...verdict.objections);
    for (const [name, count] of Object.entries(verdict.figures.responses)) {
      world.coverage.count('responses', name, count);
    }
    for (const figure of [
      'keysWithDifferentSuccesses',
      'extraExecutions',
      'lostOutcomes',
      'executions',
      'keys',
    ] as const) {
      world.coverage.count('figures', figure, verdict.figures[figure]);
    }
  }
  objections.push(...changedReplays(world));
  if (world.plan.faults.length === 0) objections.push(...lateResponses(world));
  return objections;
}

/** Of a key whose retention ended within the episode, what was before: the key is another one since then. */
function evidenceOf(world: World, keys: ReadonlySet<string>, stuck: readonly string[]): Evidence {
  const { deaths, events, expiredAt } = world;
  const isOf = (key: string, at: number) => keys.has(key) && at < (expiredAt.get(key) ?? Infinity);
  const clients = new ClientLog();
  for (const response of world.responses) {
    if (isOf(response.key, response.receivedAt)) clients.add(response);
  }
  return {
    ledger: world.ledger.filter(({ key, at }) => isOf(key, at)),
    events,
    clients,
    stuck: stuck.filter((key) => keys.has(key)),
    deaths,
  };
}

/**
 * - `differentSuccesses`: of a record that was not lost, with `whenNotSaved: 'error'` and without fail-open, there are none.
 * - `lostOutcomes`: the loss of a record cannot be detected by a retry.
 * - `outages`: while the store, or a process, is in trouble. {@link ResponseRules} objects to a 503 at another time.
 */
function expectationsOf(world: World, key: string): Expectations {
  const { plan, ledger, lostRecords, takenOver } = world;
  const { kind, onTakeover, whenNotSaved, whenUnavailable } =
    world.intents.get(key)!.operation.plan;
  const isLost = lostRecords.has(key);
  const isUnprotected = ledger.some((effect) => effect.key === key && effect.fence === 0);
  const isTakenOver = takenOver.has(key);
  const outages = plan.faults.some((fault) => OUTAGES.includes(fault));
  return {
    extraExecutions: extraExecutionsOf(world, key, isUnprotected),
    differentSuccesses: isLost || isUnprotected || (isTakenOver && whenNotSaved === 'respond'),
    lostOutcomes: isLost,
    outages,
    brokenConnections: kind === 'http' || BREAKING.some((fault) => plan.faults.includes(fault)),
    otherResponses: [
      ...OWN,
      '409 idempotency_in_progress',
      '409 idempotency_response_not_kept',
      ...(kind === 'http' ? SURROUNDING : []),
      ...(onTakeover === 'recover' ? ['400 invalid'] : []),
      ...(outages ? ['503 idempotency_store_unavailable'] : []),
      ...(plan.faults.includes('drain') ? ['503 idempotency_shutting_down'] : []),
      ...(world.touched.get(key)?.has('other content') ? ['422 idempotency_key_reused'] : []),
      ...(world.unknownOutcomes.has(key) ? ['409 idempotency_outcome_unknown'] : []),
      ...(outages && whenUnavailable === 'execute' ? UNPROTECTED : []),
    ],
    // A key that stays blocked is stuck in the sweep at the end.
    maxBlockedMs: undefined,
  };
}

function extraExecutionsOf(
  world: World,
  key: string,
  isUnprotected: boolean,
): Expectations['extraExecutions'] {
  const { deaths, ledger, lostOutcomes, lostRecords, takenOver } = world;
  const hasDied = ledger.some((effect) => effect.key === key && deaths.has(effect.worker));
  const isLost = lostRecords.has(key);
  // After a loss, and a step back of the clock, fences do not grow: which attempt was first is not known.
  if (isLost && world.serverOf(recordKeyOf(world, key)).hasSteppedBack) {
    return 'any, with equal tokens';
  }
  // No attempt is left that could notice the loss.
  if (lostOutcomes.has(key) || (isLost && hasDied)) return 'any';
  // The owner reports that its record is gone, or its successor that it was taken over.
  if (isLost || isUnprotected) return 'reported to either';
  if (!takenOver.has(key)) return 'never';
  return hasDied ? 'reported to the second' : 'reported to both';
}

function recordKeyOf({ intents }: World, key: string): RecordKey {
  return intents.get(key)!.operation.recordKeyOf(key);
}

/** A stored outcome never changes: every replay of a key whose record was not lost is the same. */
function changedReplays(world: World): string[] {
  const replays = new Map<string, string>();
  const changed = new Set<string>();
  const { expiredAt, lostRecords } = world;
  for (const { key, status, replayed, execution, receivedAt } of world.responses) {
    const isPast = receivedAt >= (expiredAt.get(key) ?? Infinity);
    if (!replayed || lostRecords.has(key) || isPast) continue;
    const outcome = `${status} ${execution}`;
    if ((replays.get(key) ?? outcome) !== outcome) changed.add(key);
    replays.set(key, outcome);
  }
  return [...changed].map((key) => `replays of ${key} differ`);
}

/** Without a fault, nothing takes longer than it must. */
function lateResponses(world: World): string[] {
  const { intents, finishedAt, plan, takenOver } = world;
  return world.responses.flatMap((response) => {
    const { key, code, receivedAt, sentAt } = response;
    const { waitMs, kind, duplicates } = intents.get(key)!.operation.plan;
    const isRejected = code === 'idempotency_in_progress';
    // Else it may be the response of an earlier owner, who polls for its successor's outcome.
    const isDuplicate = !takenOver.has(key);
    if (isRejected && isDuplicate && duplicates === 'reject' && receivedAt - sentAt > 20) {
      return [`a duplicate of ${key} was rejected late`];
    }
    if (isRejected && duplicates === 'wait' && kind !== 'http' && plan.maxWaiters > plan.atOnce) {
      return receivedAt - sentAt < waitMs - 5 ? [`a duplicate of ${key} did not wait`] : [];
    }
    return lateReplay(response, finishedAt.get(key), plan.notifies && isDuplicate);
  });
}

function lateReplay(
  { key, replayed, receivedAt, sentAt }: ApiResponse,
  finishedAt: number | undefined,
  notifies: boolean,
): string[] {
  if (!replayed || finishedAt === undefined) return [];
  const lateMs = receivedAt - Math.max(sentAt, finishedAt);
  const limitMs = sentAt >= finishedAt ? 20 : notifies ? NOTIFIED_MS : POLLED_MS;
  return lateMs > limitMs ? [`a replay of ${key} came ${Math.round(lateMs)} ms late`] : [];
}
