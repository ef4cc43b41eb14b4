import { blockedKeys, type BlockedKey } from './blocked-keys.js';
import type { ClientLog, KeyHistory } from './client-log.js';
import type { Evidence } from './evidence.js';
import type { Expectations } from './expectations.js';
import { extraExecutions, recordKeyOf, type ExtraExecution } from './extra-executions.js';
import { Objections } from './objections.js';
import { sum } from '../sum.js';

/** What a run came to, counted. */
export interface Figures {
  readonly requests: number;
  readonly keys: number;
  /** Effects in the ledger. */
  readonly executions: number;
  readonly keysExecutedTwice: number;
  readonly extraExecutions: number;
  readonly reportedToSecond: number;
  readonly reportedToFirst: number;
  /** Unreported extra executions, except those after a lost outcome. */
  readonly unreported: number;
  /** Extra executions after a client had the key's success: the store had lost its record. */
  readonly lostOutcomes: number;
  readonly keysWithDifferentSuccesses: number;
  /** Successes of executions that are not in the ledger. */
  readonly successesWithoutEffect: number;
  readonly keysStuck: number;
  /** Keys that were blocked by a dead owner, and the longest time that one was. */
  readonly keysBlocked: number;
  readonly longestBlockedMs: number;
  readonly serverErrorsAfterSuccess: number;
  /** Answers by class. */
  readonly responses: Readonly<Record<string, number>>;
}

export interface Verdict {
  readonly figures: Figures;
  /** What must not have happened; empty if all is well. */
  readonly objections: readonly string[];
  /** Keys to inspect, some of each objection. */
  readonly suspects: readonly string[];
}

/** An execution's own answer, and its replay: not one that ran unprotected. */
const SUCCESSES = new Set(['201', '201 replay']);

const BROKEN = new Set(['ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'ABORT_ERR']);

/** Judges a run by what its ledger and its clients say. */
export function judge(evidence: Evidence, allowed: Expectations): Verdict {
  const { ledger, clients, stuck } = evidence;
  const extras = extraExecutions(evidence);
  const unreported = extras.filter((extra) => !isReported(extra, allowed));
  const lostOutcomes = unreported.filter(({ afterSuccess }) => afterSuccess);
  const silent = unreported.filter(({ afterSuccess }) => !afterSuccess);
  const different = keysWhere(clients, ({ successes }) => successes.size > 1);
  const phantoms = successesWithoutEffect(evidence);
  const blocked = blockedKeys(evidence);
  const longestBlockedMs = Math.max(0, ...blocked.map(({ ms }) => ms));
  const serverErrors = keysWhere(clients, (key) => key.serverErrorsAfterSuccess.length > 0);
  const keysOf = (found: readonly ExtraExecution[]) => found.map(({ effect }) => effect.key);

  const objections = new Objections();
  objections.to('executed again, and not reported as it should be', keysOf(silent));
  if (!allowed.lostOutcomes) objections.to('executed again after a success', keysOf(lostOutcomes));
  if (allowed.extraExecutions === 'never') {
    objections.to('executed again', keysOf(extras.filter((extra) => !unreported.includes(extra))));
  }
  if (!allowed.differentSuccesses) objections.to('different successes for one key', different);
  objections.to('success without an effect', phantoms);
  objections.to('stuck key', stuck);
  if (!allowed.outages) objections.to('5xx for a key that was done', serverErrors);
  for (const [name, count] of unexpectedResponses(clients, allowed)) {
    objections.say(`${count} × answer that no client may get: ${name}`);
  }
  const { maxBlockedMs } = allowed;
  if (maxBlockedMs !== undefined && longestBlockedMs > maxBlockedMs) {
    const tooLong = new Set(blocked.filter(({ ms }) => ms > maxBlockedMs).map(recordOf));
    const keys = keysWhere(clients, (_, key) => tooLong.has(recordKeyOf(key)));
    objections.say(
      `a key was blocked for ${longestBlockedMs} ms, ${maxBlockedMs} ms are allowed`,
      keys,
    );
  }
  return {
    figures: {
      requests: clients.requests,
      keys: clients.keys.size,
      executions: ledger.length,
      keysExecutedTwice: new Set(keysOf(extras)).size,
      extraExecutions: extras.length,
      reportedToSecond: extras.filter(({ reportedToSecond }) => reportedToSecond).length,
      reportedToFirst: extras.filter(({ reportedToFirst }) => reportedToFirst).length,
      unreported: silent.length,
      lostOutcomes: lostOutcomes.length,
      keysWithDifferentSuccesses: different.length,
      successesWithoutEffect: phantoms.length,
      keysStuck: stuck.length,
      keysBlocked: blocked.length,
      longestBlockedMs,
      serverErrorsAfterSuccess: sum(
        [...clients.keys.values()].map((key) => key.serverErrorsAfterSuccess.length),
      ),
      responses: Object.fromEntries([...clients.classes].sort(([a], [b]) => a.localeCompare(b))),
    },
    objections: objections.all,
    suspects: objections.suspects,
  };
}

function isReported(
  { effect, before, reportedToFirst, reportedToSecond }: ExtraExecution,
  { extraExecutions: wanted }: Expectations,
): boolean {
  switch (wanted) {
    case 'reported to the second':
      return reportedToSecond;
    case 'reported to both':
      return reportedToFirst && reportedToSecond;
    case 'never':
    case 'reported to either':
      return reportedToFirst || reportedToSecond;
    case 'any':
      return effect.fence !== before.fence || effect.fence === 0;
    case 'any, with equal tokens':
      return true;
  }
}

function keysWhere(
  clients: ClientLog,
  holds: (history: KeyHistory, key: string) => boolean,
): string[] {
  return [...clients.keys].filter(([key, history]) => holds(history, key)).map(([key]) => key);
}

function recordOf({ recordKey }: BlockedKey): string {
  return recordKey;
}

function successesWithoutEffect({ ledger, clients }: Evidence): string[] {
  const executions = new Set(ledger.map(({ key, execution }) => `${key} ${execution}`));
  return keysWhere(clients, () => true).filter((key) =>
    [...clients.keys.get(key)!.successes.values()].some(
      ({ execution }) => !executions.has(`${key} ${execution}`),
    ),
  );
}

function unexpectedResponses(clients: ClientLog, allowed: Expectations): [string, number][] {
  return [...clients.classes].filter(([name]) => {
    if (SUCCESSES.has(name)) return false;
    if (BROKEN.has(name)) return !allowed.brokenConnections;
    return !allowed.otherResponses.includes(name);
  });
}
