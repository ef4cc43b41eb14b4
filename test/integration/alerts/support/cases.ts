import { METRICS } from '../../../support/internals/observability.js';
import { seriesName, type InputSeries, type Labels } from '../../../support/prometheus/promtool.js';

/** Series of one alert, and when it fires on them. */
export interface AlertCase {
  readonly name: string;
  /** A value for each minute. */
  readonly series: InputSeries;
  /** By minute: the labels of the alerts that fire, besides name and severity. */
  readonly firing: 'never' | Readonly<Record<number, readonly Labels[]>>;
}

export interface AlertCases {
  readonly severity: 'critical' | 'warning';
  readonly cases: readonly AlertCase[];
  /** `$value` of the first alert that fires, as its annotations show it. */
  readonly value?: string;
}

const TARGET = { job: 'payments', instance: 'one:3000' };
const OTHER_TARGET = { ...TARGET, instance: 'two:3000' };
const JOB = { job: 'payments' };
const OPERATION = { idempotency_operation_name: 'payments.create' };
const ALERT = { ...JOB, ...OPERATION };

const incidents = (type: string, target: Labels = TARGET) =>
  seriesName('idempotency_incidents_total', {
    idempotency_incident_type: type,
    ...OPERATION,
    ...target,
  });
const requests = (result: string, target: Labels = TARGET) =>
  seriesName('idempotency_requests_total', {
    idempotency_result: result,
    idempotency_transport: 'http',
    ...OPERATION,
    ...target,
  });
const takeovers = (target: Labels = TARGET) =>
  seriesName('idempotency_takeovers_total', { ...OPERATION, ...target });
const reconciled = (result: string) =>
  seriesName('idempotency_reconciled_records_total', {
    idempotency_reconcile_result: result,
    ...TARGET,
  });
const breaker = (state: string) =>
  seriesName('idempotency_store_breaker_status', {
    idempotency_store_breaker_state: state,
    ...TARGET,
  });

/** All values of a label but some. */
function others(metric: string, label: string, ...but: readonly string[]): string[] {
  const attributes = METRICS.find(({ name }) => name === metric)?.attributes ?? [];
  const values = attributes.find(({ name }) => name === label)?.values;
  if (!Array.isArray(values)) throw new Error(`${metric} has no values of ${label}.`);
  return values.filter((value) => !but.includes(value));
}

/** How long cases last. */
export const MINUTES = 90;

/** The same value for some minutes. */
const flat = (value: number, minutes = MINUTES) => `${value}+0x${minutes - 1}`;
/** Far from 0, beyond which `increase()` does not extrapolate. */
const START = 1_000_000;
/** A counter that grows by so much each minute. */
const growing = (perMinute: number) => `${START}+${perMinute}x${MINUTES}`;
/** A counter that grows by `before` each minute until minute `at`, and by `after` from then on. */
function changing(before: number, after: number, at = 40): string {
  const value = START + before * at;
  return `${START}+${before}x${at} ${value + after}+${after}x${MINUTES}`;
}
/** A counter that stands at 7 until it grows once. */
const once = (by: number, at: number) => `${flat(7, at)} ${flat(7 + by)}`;

const all = (values: readonly string[], series: (value: string) => string, points: string) =>
  Object.fromEntries(values.map((value) => [series(value), points]));

/**
 * For a rule that waits for the first increase of a counter: with `increase(…[minutes])`, no "for", and the type of
 * incident or result in a matcher.
 */
function firstIncrease(
  types: readonly string[],
  minutes: number,
  of: { readonly metric: string; readonly label: string; readonly series: typeof incidents },
  alertOf: (type: string) => Labels = () => ALERT,
): AlertCase[] {
  const { metric, label, series } = of;
  return [
    {
      name: 'all others grow, and it stands still',
      series: {
        ...all(others(metric, label, ...types), series, growing(1)),
        ...all(types, series, flat(7)),
      },
      firing: 'never',
    },
    ...types.map((type) => ({
      name: `${type} grows by one in one of two processes`,
      series: { [series(type)]: once(1, 5), [series(type, OTHER_TARGET)]: flat(7) },
      firing: {
        4: [],
        5: [alertOf(type)],
        [minutes + 3]: [alertOf(type)],
        [minutes + 6]: [],
      },
    })),
  ];
}

const OF_INCIDENTS = {
  metric: 'idempotency.incidents',
  label: 'idempotency.incident.type',
  series: incidents,
};
const OF_REQUESTS = {
  metric: 'idempotency.requests',
  label: 'idempotency.result',
  series: requests,
};

interface Share {
  /** The series of what is counted, for a share of the requests. */
  readonly part: (target?: Labels) => string;
  readonly whole: (target?: Labels) => string;
  /** The share from which it fires. */
  readonly threshold: number;
  /** The whole has its parts in it. */
  readonly isIncluded: boolean;
  readonly alert: Labels;
}

/**
 * Just below its threshold, which it must not seem to exceed where traffic grows or ends: both sides of the share have to
 * look at the same minutes.
 */
function shareBelow({ part, whole, threshold, isIncluded }: Share): AlertCase[] {
  const share = 0.9 * threshold;
  const split = (perMinute: number) =>
    [share * perMinute, perMinute * (isIncluded ? 1 - share : 1)] as const;
  const cases = { steady: [10_000, 10_000], grows: [100, 10_000], ends: [10_000, 100] } as const;
  return Object.entries(cases).map(([name, [before, after]]) => {
    const [partBefore, wholeBefore] = split(before);
    const [partAfter, wholeAfter] = split(after);
    return {
      name: `the share is just below the threshold: ${name}`,
      series: {
        [part()]: changing(partBefore, partAfter),
        [whole()]: changing(wholeBefore, wholeAfter),
      },
      firing: 'never',
    };
  });
}

/** 1.5 of the threshold, spread over two processes. */
function shareAbove({ part, whole, threshold, isIncluded, alert }: Share): AlertCase {
  const share = 1.5 * threshold;
  const counters = (target: Labels) => ({
    [part(target)]: growing(share * 5_000),
    [whole(target)]: growing(isIncluded ? (1 - share) * 5_000 : 5_000),
  });
  return {
    name: 'the share is above the threshold',
    series: { ...counters(TARGET), ...counters(OTHER_TARGET) },
    firing: { 60: [alert] },
  };
}

/** From minute 21 on: it fires once it has lasted. */
function lasting({ part, whole, alert }: Share, minutes: number): AlertCase {
  return {
    name: `it has lasted for ${minutes} minutes`,
    series: { [part()]: changing(0, 1_000, 20), [whole()]: growing(1_000) },
    firing: { [20 + minutes]: [], [21 + minutes]: [alert] },
  };
}

/** A share of one half, but few of them: so many in 15 minutes. */
function fewIn15Minutes({ part, whole, alert }: Share, minimum: number): AlertCase[] {
  const rare = (count: number) => ({
    [part()]: growing(count / 15),
    [whole()]: growing(count / 15),
  });
  return [
    { name: 'too few', series: rare(minimum - 0.5), firing: 'never' },
    { name: 'just enough', series: rare(minimum + 0.5), firing: { 60: [alert] } },
  ];
}

const UNAVAILABLE: Share = {
  part: (target) => requests('store_unavailable', target),
  whole: (target) => requests('executed', target),
  threshold: 0.01,
  isIncluded: true,
  alert: JOB,
};
const TAKEOVERS: Share = {
  part: takeovers,
  whole: (target) => requests('executed', target),
  threshold: 0.01,
  isIncluded: false,
  alert: ALERT,
};
const MISMATCHES: Share = {
  part: (target) => requests('mismatch', target),
  whole: (target) => requests('replayed', target),
  threshold: 0.02,
  isIncluded: true,
  alert: ALERT,
};
const withoutKey = (result: string): Share => ({
  part: (target) => requests(result, target),
  whole: (target) => requests('executed', target),
  threshold: 0.05,
  isIncluded: true,
  alert: ALERT,
});
const OTHER_REJECTIONS = ['in_progress', 'outcome_unknown', 'shutting_down', 'caller_unknown'];

export const CASES: Readonly<Record<string, AlertCases>> = {
  IdempotencyEffectMayHaveHappenedTwice: {
    severity: 'critical',
    cases: firstIncrease(['superseded', 'outcome_diverged'], 10, OF_INCIDENTS, (type) => ({
      ...ALERT,
      idempotency_incident_type: type,
    })),
  },
  IdempotencyRecordLost: {
    severity: 'critical',
    cases: firstIncrease(['record_lost'], 10, OF_INCIDENTS),
  },
  IdempotencyOutcomeNotStored: {
    severity: 'critical',
    cases: firstIncrease(['save_failed'], 10, OF_INCIDENTS),
  },
  IdempotencyOutcomeUnreadable: {
    severity: 'critical',
    cases: firstIncrease(['outcome_unreadable', 'pack_failed'], 10, OF_INCIDENTS, (type) => ({
      ...ALERT,
      idempotency_incident_type: type,
    })),
  },
  IdempotencyStoreUnavailable: {
    severity: 'critical',
    value: '1.5%',
    cases: [
      shareAbove(UNAVAILABLE),
      ...shareBelow(UNAVAILABLE),
      lasting(UNAVAILABLE, 2),
      {
        name: 'other rejections',
        series: {
          ...all(OTHER_REJECTIONS, requests, growing(1_000)),
          [requests('store_unavailable')]: flat(7),
        },
        firing: 'never',
      },
      {
        name: 'it has ended',
        series: {
          [requests('store_unavailable')]: once(30, 40),
          [requests('executed')]: growing(9),
        },
        firing: { 43: [JOB], 47: [] },
      },
    ],
  },
  IdempotencyUnprotectedRuns: {
    severity: 'critical',
    cases: firstIncrease(['unprotected'], 5, OF_REQUESTS),
  },
  IdempotencyBreakerOpen: {
    severity: 'warning',
    cases: [
      {
        name: 'it is open, and probed now and then',
        series: {
          [breaker('open')]: '0 1 0 1 0 1',
          [breaker('half_open')]: '0 0 1 0 1 0',
          [breaker('closed')]: '1 0 0 0 0 0',
        },
        firing: { 2: [], 3: [TARGET], 4: [TARGET] },
      },
      {
        name: 'it is closed',
        series: { ...all(['open', 'half_open'], breaker, flat(0)), [breaker('closed')]: flat(1) },
        firing: 'never',
      },
      {
        name: 'it closes in time',
        series: { [breaker('open')]: '0 1 1 0 0 0', [breaker('closed')]: '1 0 0 1 1 1' },
        firing: 'never',
      },
    ],
  },
  IdempotencyKeysAbandoned: {
    severity: 'warning',
    cases: [
      {
        name: 'every round finds some',
        series: { [reconciled('unknown')]: growing(1) },
        firing: { 15: [], 16: [JOB] },
      },
      {
        name: 'a round finds some every twelve minutes',
        series: {
          [reconciled('unknown')]: [1, 2, 3, 4, 5].map((round) => flat(round, 12)).join(' '),
        },
        firing: { 26: [], 27: [JOB], 55: [JOB] },
      },
      {
        name: 'one round finds some',
        series: { [reconciled('unknown')]: once(5, 20) },
        firing: 'never',
      },
      {
        name: 'rounds settle what they find',
        series: {
          ...all(
            others('idempotency.reconciled.records', 'idempotency.reconcile.result', 'unknown'),
            reconciled,
            growing(1),
          ),
          [reconciled('unknown')]: flat(7),
        },
        firing: 'never',
      },
    ],
  },
  IdempotencyRecoveryFailed: {
    severity: 'warning',
    cases: firstIncrease(['recovery_failed'], 15, OF_INCIDENTS),
  },
  IdempotencyCommitFailed: {
    severity: 'warning',
    cases: firstIncrease(
      ['rolled_back', 'committed_apart', 'commit_hook_failed'],
      15,
      OF_INCIDENTS,
      (type) => ({
        ...ALERT,
        idempotency_incident_type: type,
      }),
    ),
  },
  IdempotencySetupMistaken: {
    severity: 'warning',
    cases: firstIncrease(['option_failed', 'key_misnamed'], 15, OF_INCIDENTS, (type) => ({
      ...ALERT,
      idempotency_incident_type: type,
    })),
  },
  IdempotencyTakeoversHigh: {
    severity: 'warning',
    cases: [
      shareAbove(TAKEOVERS),
      ...shareBelow(TAKEOVERS),
      lasting(TAKEOVERS, 5),
      ...fewIn15Minutes(TAKEOVERS, 5),
      {
        name: 'replays do not hide them',
        series: {
          [takeovers()]: growing(2),
          [requests('executed')]: growing(100),
          [requests('replayed')]: growing(10_000),
        },
        firing: { 60: [ALERT] },
      },
      {
        name: 'no attempt has ended yet',
        series: { [takeovers()]: growing(2), [requests('unprotected')]: flat(0) },
        firing: { 60: [ALERT] },
      },
      {
        name: 'most executions are unprotected',
        series: {
          [takeovers()]: growing(9),
          [requests('executed')]: growing(100),
          [requests('unprotected')]: growing(900),
        },
        firing: 'never',
      },
    ],
  },
  IdempotencyKeyMismatchHigh: {
    severity: 'warning',
    value: '3%',
    cases: [
      shareAbove(MISMATCHES),
      ...shareBelow(MISMATCHES),
      lasting(MISMATCHES, 10),
      ...fewIn15Minutes(MISMATCHES, 10),
      {
        name: 'other rejections',
        series: {
          ...all([...OTHER_REJECTIONS, 'key_missing'], requests, growing(100)),
          [requests('mismatch')]: flat(7),
        },
        firing: 'never',
      },
    ],
  },
  IdempotencyClientsWithoutKey: {
    severity: 'warning',
    value: '7.5%',
    cases: [
      ...['key_missing', 'key_invalid'].map((result) => shareAbove(withoutKey(result))),
      ...shareBelow(withoutKey('key_missing')),
      lasting(withoutKey('key_invalid'), 10),
      ...['key_missing', 'key_invalid'].flatMap((result) => fewIn15Minutes(withoutKey(result), 10)),
      {
        name: 'other rejections',
        series: {
          ...all([...OTHER_REJECTIONS, 'mismatch'], requests, growing(100)),
          ...all(['key_missing', 'key_invalid'], requests, flat(7)),
        },
        firing: 'never',
      },
    ],
  },
  IdempotencySaveSlow: {
    severity: 'warning',
    cases: [
      {
        name: 'five in two processes',
        series: {
          [incidents('save_delayed')]: once(3, 5),
          [incidents('save_delayed', OTHER_TARGET)]: once(2, 5),
        },
        firing: { 4: [], 5: [JOB], 13: [JOB], 16: [] },
      },
      {
        name: 'now and then',
        series: { [incidents('save_delayed')]: growing(0.45) },
        firing: 'never',
      },
      {
        name: 'all others grow',
        series: {
          ...all(
            others(OF_INCIDENTS.metric, OF_INCIDENTS.label, 'save_delayed'),
            incidents,
            growing(10),
          ),
          [incidents('save_delayed')]: flat(7),
        },
        firing: 'never',
      },
    ],
  },
  IdempotencyAttemptsNearDeadline: {
    severity: 'warning',
    cases: firstIncrease(['slow_attempt'], 15, OF_INCIDENTS),
  },
};
