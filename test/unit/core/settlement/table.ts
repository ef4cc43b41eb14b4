import {
  type ResponseSender,
  type SettlementRules,
  type SettlementSignal,
  INITIAL_STATE,
  settle,
  type SettlementEffect,
  type SettlementState,
  type OutcomeSummary,
} from '../../../support/internals/core.js';

const STREAM_STARTED: SettlementSignal = { kind: 'streamStarted' };
const ACTIVE: SettlementSignal = { kind: 'active' };
const ENTERED: SettlementSignal = { kind: 'entered' };
const RETURNED: SettlementSignal = { kind: 'returned' };
const RETURNED_ONCE: SettlementSignal = { kind: 'returned', goesOn: true };
const THROWN: SettlementSignal = { kind: 'threw' };
const IDLE: SettlementSignal = { kind: 'idle' };
const SOURCE_BROKEN: SettlementSignal = { kind: 'sourceBroken' };
const streamCompleted = (status: number, stream = 1): SettlementSignal => ({
  kind: 'streamCompleted',
  stream,
  status,
});
const streamFailed = (isRetryable = false, stream = 1): SettlementSignal => ({
  kind: 'streamFailed',
  stream,
  error: new Error('planned'),
  isRetryable,
});
const abandoned = (stream = 1): SettlementSignal => ({ kind: 'streamAbandoned', stream });
const responseComplete = (status: number): SettlementSignal => ({
  kind: 'responseComplete',
  status,
});
const overflow = (status: number): SettlementSignal => ({ kind: 'overflow', status });
const started = (sender: ResponseSender): SettlementSignal => ({ kind: 'responseStarted', sender });
const clientGone = (hasBegun: boolean): SettlementSignal => ({ kind: 'clientGone', hasBegun });

/** The signals that lead from the start to each state of the table's head. */
const RUN = [STREAM_STARTED, ENTERED];
const RETURN = [...RUN, RETURNED];
const THROW = [...RUN, THROWN, IDLE];
const STATES = {
  waiting: [],
  started: [STREAM_STARTED],
  running: RUN,
  returned: RETURN,
  completed: [...RETURN, streamCompleted(201)],
  unkept: [...RETURN, streamCompleted(503)],
  uncalled: [STREAM_STARTED, streamCompleted(201)],
  threw: [...THROW, streamFailed()],
  conflict: [...THROW, streamFailed(true)],
  piped: [STREAM_STARTED, streamFailed()],
  /** What is inside of the interceptor is part of the operation: it has failed. */
  enveloped: [...RETURN, streamFailed()],
  left: [...RUN, abandoned()],
  gaveUp: [...RUN, streamFailed()],
  late: [...RUN, streamFailed(), RETURNED_ONCE],
  uncalledActive: [STREAM_STARTED, ACTIVE, streamCompleted(201)],
  gone: [...RETURN, clientGone(true), streamCompleted(201)],
  again: [...RETURN, streamCompleted(503), ACTIVE],
  releasing: [...RETURN, streamCompleted(503), ACTIVE, responseComplete(503)],
  settled: [...RETURN, streamCompleted(201), responseComplete(201)],
  second: [...RUN, STREAM_STARTED],
  overtaken: [...RUN, started(undefined), STREAM_STARTED],
  sending: [...RUN, started('handler')],
  sent: [...RUN, started('handler'), responseComplete(201)],
  sentAndReturned: [...RUN, started('handler'), responseComplete(201), RETURNED],
  sentByAnInterceptor: [...RETURN, started('around')],
  caught: [...THROW, streamCompleted(201)],
  broken: [...RETURN, streamCompleted(201), SOURCE_BROKEN],
  halfWritten: [...THROW, streamFailed(), SOURCE_BROKEN],
  renewed: [
    ...[...THROW, streamFailed(), SOURCE_BROKEN],
    ...[STREAM_STARTED, ENTERED, RETURNED, streamCompleted(201, 2)],
  ],
} satisfies Record<string, readonly SettlementSignal[]>;

const SIGNALS = {
  notCalled: { kind: 'notCalled' },
  streamStarted: STREAM_STARTED,
  'completed 201': streamCompleted(201),
  'completed 503': streamCompleted(503),
  'stale completed': streamCompleted(201, 9),
  failed: streamFailed(),
  'failed retryably': streamFailed(true),
  'stale failed': streamFailed(false, 9),
  abandoned: abandoned(),
  'stale abandoned': abandoned(9),
  active: ACTIVE,
  entered: ENTERED,
  returned: RETURNED,
  'returned once': RETURNED_ONCE,
  threw: THROWN,
  idle: IDLE,
  /** Of other code, as a timeout sends it. */
  responseStarted: started(undefined),
  'started by handler': started('handler'),
  'started around': started('around'),
  'response 201': responseComplete(201),
  'response 402': responseComplete(402),
  'response 500': responseComplete(500),
  'overflow 201': overflow(201),
  'overflow 500': overflow(500),
  sourceBroken: SOURCE_BROKEN,
  'client gone': clientGone(true),
  'client gone first': clientGone(false),
  graceOver: { kind: 'graceOver' },
} satisfies Record<string, SettlementSignal>;

export type State = keyof typeof STATES;
export type Signal = keyof typeof SIGNALS;

/** What comes of the signals in a state; those that are not listed change neither its phase nor anything else. */
type Row = Readonly<Record<string, readonly Signal[]>>;

const PASSING: readonly Signal[] = [
  'response 201',
  'response 402',
  'response 500',
  'overflow 201',
  'overflow 500',
];
const FOREIGN: readonly Signal[] = ['responseStarted'];
const STARTING: readonly Signal[] = [...FOREIGN, 'started by handler', 'started around'];
const COMPLETING: readonly Signal[] = ['completed 201', 'completed 503'];
const FAILING: readonly Signal[] = ['failed', 'failed retryably'];
const LEAVING: readonly Signal[] = ['client gone', 'client gone first'];

const OPEN: Row = {
  completed: COMPLETING,
  failed: FAILING,
  respondedEarly: ['abandoned'],
  'respondedEarly pass': [...FOREIGN, 'started around'],
  hold: ['started by handler'],
  pass: PASSING,
};

const EARLY: Row = { running: ['streamStarted'], pass: [...STARTING, ...PASSING] };

/** The outer interceptor that has left may have left the response to the handler. */
const LEFT: Row = {
  'running hold': ['started by handler'],
  pass: [...FOREIGN, 'started around', ...PASSING],
};

const COMPLETED: Row = {
  running: ['streamStarted'],
  failed: FAILING,
  hold: STARTING,
  'keep completed': ['response 201'],
  'keep failed': ['response 402'],
  'keep failed, diverged': ['response 500'],
  'keep completed without response': ['overflow 201', 'graceOver'],
  'keep failed without response, diverged': ['overflow 500'],
  'wait 1 s': LEAVING,
};

/** The response's status decides, although the stream's is kept. */
const BY_WIRE: Row = {
  'keep failed, diverged': [],
  'keep failed without response, diverged': [],
  release: ['response 500', 'overflow 500'],
};

const UNKEPT: Row = {
  running: ['streamStarted'],
  failed: FAILING,
  hold: STARTING,
  'keep completed': ['response 201'],
  'keep failed': ['response 402'],
  'keep completed without response': ['overflow 201'],
  release: ['response 500', 'overflow 500', 'graceOver'],
  'wait 1 s': LEAVING,
};

const THREW: Row = {
  running: ['streamStarted'],
  completed: COMPLETING,
  hold: STARTING,
  'keep completed': ['response 201'],
  'keep failed': ['response 402'],
  'keep completed without response': ['overflow 201'],
  release: ['response 500', 'overflow 500', 'graceOver'],
  'wait 1 s': LEAVING,
};

const NOT_KEPT: Row = {
  running: ['streamStarted'],
  completed: COMPLETING,
  hold: STARTING,
  release: [...PASSING, 'graceOver'],
  'wait 1 s': LEAVING,
};

/** The policy decides on its response, whenever it comes. */
const BY_POLICY: Row = {
  pass: [],
  'respondedEarly pass': [],
  hold: STARTING,
  'keep completed': ['response 201'],
  'keep failed': ['response 402'],
  'keep completed without response': ['overflow 201'],
  release: ['response 500', 'overflow 500'],
};

/** The same while the handler runs. */
const BY_POLICY_RUNNING: Row = {
  ...BY_POLICY,
  release: [],
  'releasing pass': ['response 500', 'overflow 500'],
};

const ORDINARY: Record<State, Row> = {
  waiting: {
    release: ['notCalled'],
    running: ['streamStarted'],
    'respondedEarly pass': [...FOREIGN, 'started around'],
    hold: ['started by handler'],
    pass: PASSING,
  },
  started: OPEN,
  running: {
    ...OPEN,
    completed: [],
    failed: [],
    respondedEarly: [...COMPLETING, ...FAILING, 'abandoned'],
  },
  returned: {
    ...OPEN,
    'respondedEarly pass': FOREIGN,
    hold: ['started by handler', 'started around'],
  },
  completed: COMPLETED,
  unkept: UNKEPT,
  uncalled: { ...COMPLETED, ...BY_WIRE },
  threw: THREW,
  conflict: NOT_KEPT,
  piped: NOT_KEPT,
  enveloped: THREW,
  left: { ...EARLY, ...LEFT },
  gaveUp: { ...EARLY, release: ['idle'], 'keep completed without response': ['returned'] },
  late: { ...EARLY, 'keep completed without response': ['idle', 'returned'] },
  uncalledActive: { ...EARLY, 'keep completed without response': ['idle', 'returned'] },
  gone: {
    ...COMPLETED,
    failed: [],
    'failed wait 1 s': FAILING,
    'wait 1 s': [...COMPLETING, ...LEAVING],
  },
  again: {
    ...UNKEPT,
    failed: [],
    respondedEarly: FAILING,
    release: [],
    'releasing pass': ['response 500', 'overflow 500'],
  },
  releasing: { release: ['idle', 'returned'], pass: [...STARTING, ...PASSING] },
  settled: { pass: [...STARTING, ...PASSING] },
  second: {
    'respondedEarly pass': [...FOREIGN, 'started around'],
    hold: ['started by handler'],
    pass: PASSING,
  },
  overtaken: { pass: [...STARTING, ...PASSING] },
  sending: {
    ...BY_POLICY_RUNNING,
    respondedEarly: [...COMPLETING, ...FAILING],
  },
  sent: { pass: [...STARTING, ...PASSING] },
  sentAndReturned: { pass: [...STARTING, ...PASSING] },
  sentByAnInterceptor: { ...BY_POLICY, completed: COMPLETING, failed: FAILING },
  caught: COMPLETED,
  broken: {
    ...COMPLETED,
    'keep completed': [],
    'keep completed without response': ['response 201', 'overflow 201', 'graceOver'],
    'keep failed': [],
    'keep failed without response': ['response 402'],
    'keep failed, diverged': [],
    'keep failed without response, diverged': ['response 500', 'overflow 500'],
  },
  halfWritten: {
    ...THREW,
    'keep completed': [],
    'keep completed without response': ['response 201', 'overflow 201'],
    'keep failed': [],
    'keep failed without response': ['response 402'],
  },
  renewed: { ...COMPLETED, failed: [] },
};

const NATIVE_WAIT: Row = { 'wait 1 s': ['client gone'], 'wait 5 s': ['client gone first'] };

const NATIVE: Record<State, Row> = {
  ...ORDINARY,
  waiting: { ...ORDINARY.waiting, ...BY_POLICY, release: ['notCalled', ...BY_POLICY.release!] },
  started: { ...OPEN, ...BY_POLICY },
  running: { ...ORDINARY.running, ...BY_POLICY_RUNNING },
  returned: { ...OPEN, ...BY_POLICY },
  completed: {
    ...COMPLETED,
    ...NATIVE_WAIT,
    ...BY_WIRE,
  },
  unkept: { ...UNKEPT, ...NATIVE_WAIT },
  uncalled: { ...ORDINARY.uncalled, ...NATIVE_WAIT },
  threw: { ...THREW, ...NATIVE_WAIT },
  conflict: { ...NOT_KEPT, ...NATIVE_WAIT },
  piped: { ...NOT_KEPT, ...NATIVE_WAIT },
  enveloped: { ...THREW, ...NATIVE_WAIT },
  left: {
    ...EARLY,
    ...BY_POLICY_RUNNING,
    ...LEFT,
    hold: [],
    pass: [...FOREIGN, 'started around'],
  },
  gaveUp: {
    ...EARLY,
    ...BY_POLICY_RUNNING,
    hold: [],
    pass: STARTING,
    release: ['idle'],
    'keep completed without response': ['overflow 201', 'returned'],
  },
  late: {
    ...EARLY,
    ...BY_POLICY_RUNNING,
    hold: [],
    pass: STARTING,
    'keep completed without response': ['overflow 201', 'idle', 'returned'],
  },
  uncalledActive: {
    ...EARLY,
    ...BY_POLICY_RUNNING,
    hold: [],
    pass: STARTING,
    'keep completed without response': ['overflow 201', 'idle', 'returned'],
  },
  gone: {
    ...ORDINARY.gone,
    ...BY_WIRE,
    'wait 1 s': [...COMPLETING, 'client gone'],
    'wait 5 s': ['client gone first'],
  },
  again: { ...ORDINARY.again, ...NATIVE_WAIT },
  second: BY_POLICY_RUNNING,
  overtaken: BY_POLICY_RUNNING,
  sending: { ...ORDINARY.running, ...BY_POLICY_RUNNING },
  sentByAnInterceptor: { ...OPEN, ...BY_POLICY },
  caught: { ...COMPLETED, ...BY_WIRE, ...NATIVE_WAIT },
  broken: { ...ORDINARY.broken, ...BY_WIRE, ...NATIVE_WAIT },
  halfWritten: { ...ORDINARY.halfWritten, ...NATIVE_WAIT },
  renewed: { ...ORDINARY.renewed, ...BY_WIRE, ...NATIVE_WAIT },
};

const TRANSACTIONAL_COMPLETED: Row = {
  'keep failed': [],
  'keep failed, undone': ['response 402'],
  'keep failed, diverged': [],
  'keep failed without response, diverged': [],
  'keep completed without response': ['overflow 201'],
  release: ['response 500', 'overflow 500', 'graceOver'],
};

const TRANSACTIONAL_THREW: Row = {
  ...THREW,
  'keep completed': [],
  'keep failed': [],
  'keep completed without response': [],
  'keep completed, undone': ['response 201'],
  'keep failed, undone': ['response 402'],
  'keep completed without response, undone': ['overflow 201'],
};

/** What is around the operation has stopped waiting for it, and its response comes. */
const TRANSACTIONAL_EARLY: Row = {
  ignore: ['started by handler'],
  pass: [...FOREIGN, 'started around', ...PASSING],
};

const TRANSACTIONAL_SENDING: Row = {
  discard: ['streamStarted', 'threw'],
  hold: STARTING,
  await: PASSING,
};

const TRANSACTIONAL: Record<State, Row> = {
  ...ORDINARY,
  gaveUp: { ...EARLY, ...TRANSACTIONAL_EARLY, release: ['idle', 'returned'] },
  sending: {
    ...TRANSACTIONAL_SENDING,
    'respondedEarly discard': [...COMPLETING, ...FAILING],
  },
  sent: {
    ...TRANSACTIONAL_SENDING,
    'respondedEarly discard': [...COMPLETING, ...FAILING],
  },
  sentAndReturned: {
    ...TRANSACTIONAL_SENDING,
    'keep completed': COMPLETING,
    'failed discard': FAILING,
  },
  sentByAnInterceptor: {
    ...TRANSACTIONAL_SENDING,
    completed: COMPLETING,
    'failed discard': FAILING,
  },
  completed: { ...COMPLETED, ...TRANSACTIONAL_COMPLETED },
  uncalled: { ...ORDINARY.uncalled, ...TRANSACTIONAL_COMPLETED },
  threw: TRANSACTIONAL_THREW,
  enveloped: TRANSACTIONAL_THREW,
  late: { ...EARLY, ...TRANSACTIONAL_EARLY, release: ['idle', 'returned'] },
  uncalledActive: {
    ...EARLY,
    ...TRANSACTIONAL_EARLY,
    release: ['idle'],
    'release, undone': ['returned'],
  },
  gone: { ...ORDINARY.gone, ...TRANSACTIONAL_COMPLETED },
  caught: {
    ...COMPLETED,
    ...TRANSACTIONAL_COMPLETED,
    'keep completed': [],
    'keep completed without response': [],
    'keep completed, undone': ['response 201'],
    'keep completed without response, undone': ['overflow 201'],
  },
  broken: {
    ...COMPLETED,
    ...TRANSACTIONAL_COMPLETED,
    'keep completed': [],
    'keep failed, undone': [],
    'keep completed without response': [],
    release: [...PASSING, 'graceOver'],
  },
  halfWritten: {
    ...THREW,
    'keep completed': [],
    'keep failed': [],
    'keep completed without response': [],
    'keep completed without response, undone': ['response 201', 'overflow 201'],
    'keep failed without response, undone': ['response 402'],
  },
  renewed: { ...ORDINARY.renewed, ...TRANSACTIONAL_COMPLETED },
};

const http = {
  successSummary: { status: 200 },
  keeps: ({ status = 200 }: OutcomeSummary) => status < 500,
};

/** The kinds of attempts. A native handler has no transaction. */
export const RULES = {
  ordinary: { isNative: false, isTransactional: false, ...http },
  native: { isNative: true, isTransactional: false, ...http },
  transactional: { isNative: false, isTransactional: true, ...http },
} satisfies Record<string, SettlementRules>;

/** The tables of the kinds of handlers: for each state, the results of all signals. */
export const TABLES: readonly (readonly [string, SettlementRules, Record<State, Row>])[] = [
  ['an ordinary handler', RULES.ordinary, ORDINARY],
  ['a native handler', RULES.native, NATIVE],
  ['a transactional handler', RULES.transactional, TRANSACTIONAL],
];

export const STATE_NAMES = Object.keys(STATES) as readonly State[];
const SIGNAL_NAMES = Object.keys(SIGNALS) as readonly Signal[];

export type Results = Readonly<Partial<Record<Signal, string>>>;

/** The results of all signals in a state, by `decide`. */
export function resultsOf(decide: typeof settle, rules: SettlementRules, name: State): Results {
  const state = after(rules, STATES[name], decide);
  const results = SIGNAL_NAMES.map((signal) => {
    const next = decide(state, SIGNALS[signal], rules);
    const isSettled = next.state.phase === 'settled';
    const isNews = isSettled && state.phase !== 'settled';
    if (settles(next.effect) !== isNews) return [signal, 'settled without its effect'];
    const phase = isSettled || next.state.phase === state.phase ? '' : next.state.phase;
    return [signal, [phase, named(next.effect)].filter(Boolean).join(' ')];
  });
  return Object.fromEntries(results) as Results;
}

/** The results that the table has for a state. */
export function listedResults(table: Record<State, Row>, name: State): Results {
  const listed = SIGNAL_NAMES.map((signal) => {
    const results = Object.entries(table[name]).filter(([, signals]) => signals.includes(signal));
    return [signal, results.map(([result]) => result).join(' or ')];
  });
  return Object.fromEntries(listed) as Results;
}

/** The state after `signals`, by `decide`. */
export function after(
  rules: SettlementRules,
  signals: readonly SettlementSignal[],
  decide = settle,
): SettlementState {
  return signals.reduce((state, signal) => decide(state, signal, rules).state, INITIAL_STATE);
}

/** The effects of a sequence of signals. A signal without properties is given by its kind. */
export function effectsOf(
  signals: readonly (string | SettlementSignal)[],
  rules: SettlementRules = RULES.ordinary,
  decide = settle,
): string[] {
  const all = signals.map((signal) =>
    typeof signal === 'string' ? ({ kind: signal } as SettlementSignal) : signal,
  );
  return all
    .map((signal, i) => named(decide(after(rules, all.slice(0, i), decide), signal, rules).effect))
    .filter(Boolean);
}

/** An effect as the table has it. */
export function named(effect: SettlementEffect | undefined): string {
  if (effect === undefined) return '';
  switch (effect.kind) {
    case 'complete': {
      const { state, isResponseKept, undo, hasDiverged } = effect;
      const response = isResponseKept ? '' : ' without response';
      return `keep ${state}${response}${undo ? ', undone' : ''}${hasDiverged ? ', diverged' : ''}`;
    }
    case 'release':
      return effect.isUndone === true ? 'release, undone' : 'release';
    case 'wait':
      return `wait ${effect.ms / 1_000} s`;
    default:
      return effect.kind;
  }
}

/** Whether the effect settles the record. */
export function settles(effect: SettlementEffect | undefined): boolean {
  return effect !== undefined && ['complete', 'commit', 'release'].includes(effect.kind);
}
