import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { transformSync } from '@swc/core';
import fc from 'fast-check';
import { settle, type SettlementSignal } from '../../../support/internals/core.js';
import { dose } from '../../../support/jest/test-all.js';
import { projectRoot } from '../../../support/project-root.js';
import { CALLS } from './calls.js';
import { brokenPromises, orders } from './random-orders.js';
import { effectsOf, listedResults, resultsOf, RULES, STATE_NAMES, TABLES } from './table.js';

const SOURCE = readFileSync(join(projectRoot, 'lib/core/engine/settlement.ts'), 'utf8');

type Mutant = readonly [mistake: string, text: string, planted: string];

/** Text of the settlement, and what a mistake makes of it. */
const MUTANTS: readonly Mutant[] = [
  [
    'a handler that still runs is released',
    "if (facts.isActive) return { state: { phase: 'releasing', facts }, effect: PASS };",
    '',
  ],
  [
    'a handler that was entered is taken for one that does not run',
    'isActive: true, isEntered: true',
    'isEntered: true',
  ],
  [
    'the end of one call is taken for that of all',
    'const isActive = signal.goesOn === true;',
    'const isActive = false;',
  ],
  [
    'a handler that has returned is taken for one that runs',
    'const isActive = signal.goesOn === true;',
    'const { isActive } = facts;',
  ],
  ['an end in vain while the handler runs is settled', 'if (facts.isActive) return { state };', ''],
  [
    'the key is freed after the grace although the handler runs',
    'if (facts.isActive) return awaitResponse(state);',
    '',
  ],
  [
    'a handler that an inner interceptor left is not waited for',
    '(state.facts.isActive && !isResult)',
    'false',
  ],
  [
    'a result while a wrapper runs counts as early',
    "const isResult = end.kind === 'completed' && state.facts.hasReturned;",
    'const isResult = false;',
  ],
  ['a success is released without its response', '!isKept || isTransactional', 'true'],
  ['a transaction without a response is kept', '!isKept || isTransactional', '!isKept'],
  [
    'the early response decides, not the handler',
    'facts.isEntered ? facts.hasReturned : state.end',
    'state.end',
  ],
  [
    'a handler that was not called has not succeeded',
    "facts.isEntered ? facts.hasReturned : state.end.kind === 'completed'",
    'facts.hasReturned',
  ],
  [
    'a failure before the operation is kept',
    'facts.isEntered && !end.isRetryable',
    '!end.isRetryable',
  ],
  ['a conflict is kept', 'facts.isEntered && !end.isRetryable', 'facts.isEntered'],
  ['the policy does not see the error', ': { status, error }', ': { status: 200 }'],
  ['a transaction that failed is committed', 'rules.isTransactional && hasFailed', 'false'],
  ['a caught error is committed', 'facts.hasThrown ||', ''],
  [
    'a success that became a failure is committed',
    ' ||\n    (isFailure && !isFailureStatus(end.summary.status))',
    '',
  ],
  ['half a response is committed', 'isKept && !facts.isSourceBroken', 'isKept'],
  ['half a response is kept', 'signal.status, !facts.isSourceBroken', 'signal.status, true'],
  ['the broken source of an older stream counts', ', isSourceBroken: false };', ' };'],
  [
    'a response that is too large is kept',
    'signal.status, false, rules',
    'signal.status, true, rules',
  ],
  ['a success that became a failure is released', 'isKept || isSuccess ?', 'isKept ?'],
  [
    'a native success that became a failure is kept',
    '!rules.isNative && facts.isEntered && end',
    'facts.isEntered && end',
  ],
  [
    'what an interceptor responded without the handler is kept as its success',
    '!rules.isNative && facts.isEntered && end',
    '!rules.isNative && end',
  ],
  ['a kept success has diverged', 'kept(!isKept)', 'kept(true)'],
  ['a success that became a failure has not diverged', 'kept(!isKept)', 'kept()'],
  ['a failure is kept as a success', "isFailure ? 'failed' : 'completed'", "'completed'"],
  [
    'an early response is recorded',
    'if (rules.isNative || facts.isSender) return { state, effect: HOLD };',
    'return { state, effect: HOLD };',
  ],
  [
    'a native response is not held',
    'if (rules.isNative || facts.isSender) return { state, effect: HOLD };',
    '',
  ],
  ['passthrough is taken for an outer response', "return sender === 'handler' || (", 'return ('],
  [
    'a timeout inside is taken for the handler',
    "sender === 'around' && isEntered && !isActive",
    "sender === 'around' && isEntered",
  ],
  [
    'what an interceptor sends before the handler is its outcome',
    "sender === 'around' && isEntered && !isActive",
    "sender === 'around' && !isActive",
  ],
  ['the commit comes after the response', 'effect: AWAIT };', 'effect: PASS };'],
  [
    'what was sent before an error leaves',
    'return discarding(reported(state, { ...facts, hasThrown: true }), rules);',
    'return reported(state, { ...facts, hasThrown: true });',
  ],
  [
    'what was sent before a failure around the handler leaves',
    "const isUndone = isEarly || end.kind === 'failed';",
    'const isUndone = isEarly;',
  ],
  [
    'what was sent before an interceptor gave up leaves',
    "const isUndone = isEarly || end.kind === 'failed';",
    "const isUndone = end.kind === 'failed';",
  ],
  ['what was sent leaves with the next run', '{ ...discarded, state: inNext', '{ state: inNext'],
  [
    'what an ordinary handler sent is discarded',
    '!isTransactional || !facts.isSender',
    '!facts.isSender',
  ],
  ['an outer interceptor takes a response back', 'if (facts.isSender) return { state };', ''],
  [
    'what the handler sends in place of an outer interceptor is not its outcome',
    "if (state.end === undefined) return sending({ phase: 'running', facts });",
    '',
  ],
  [
    'a late response of a transaction wins over that of the interceptor that gave up',
    'if (rules.isTransactional) return { state, effect: IGNORE };',
    '',
  ],
  [
    'a response that was sent is not settled at the end',
    'if (sent === undefined) return awaitResponse(completed);',
    'return awaitResponse(completed);',
  ],
  [
    'the response to a handler is not held',
    "case 'failed':\n      return { state, effect: HOLD };",
    "case 'failed':\n      return { state, effect: PASS };",
  ],
  ['a response in place of the handler is taken for its own', 'if (!isOfHandler || ', 'if ('],
  [
    'a settled record is settled again',
    "phase === 'releasing' || phase === 'settled') return { state, effect: PASS }",
    'false) return { state, effect: PASS }',
  ],
  [
    'a late end settles again',
    "if (phase === 'releasing' || phase === 'settled') return { state };",
    '',
  ],
  [
    'a new stream reopens a settled record',
    "    case 'releasing':\n    case 'settled':\n      return { phase: state.phase, facts };",
    '',
  ],
  [
    'a new stream responds after a response has begun',
    'if (state.hasBegun) return',
    'if (false) return',
  ],
  ['the key is held by an abandoned stream', 'if (state.hasBegun) return', 'if (true) return'],
  [
    'the end of an older stream counts',
    'if (signal.stream !== facts.stream) return { state };\n      const summary',
    'const summary',
  ],
  [
    'the failure of an older stream counts',
    'if (stream !== facts.stream) return { state };\n      return',
    'return',
  ],
  [
    'leaving an older stream counts',
    "state.phase !== 'running' || signal.stream !== facts.stream",
    "state.phase !== 'running'",
  ],
  ['leaving a stream that has ended counts', "state.phase !== 'running' || signal", 'signal'],
  ['a native handler has no longer to respond', 'rules.isNative && !signal.hasBegun', 'false'],
  [
    'a native handler that has begun has longer',
    'rules.isNative && !signal.hasBegun',
    'rules.isNative',
  ],
  [
    'there is no wait for a client that left before',
    'const isExpected =',
    'const isExpected = false &&',
  ],
  [
    'a status that is not kept is kept after the grace',
    "end.kind === 'completed' && end.isKept, rules",
    "end.kind === 'completed', rules",
  ],
  ['an attempt without a handler is not released', "state.phase === 'waiting' ?", 'false ?'],
  ['a running handler is released as not called', "state.phase === 'waiting' ?", 'true ?'],
];

const MUTANTS_OF_CALLS: readonly Mutant[] = [
  [
    'a failure without a status is kept as a success',
    " || (status === undefined && end?.kind === 'failed')",
    '',
  ],
  ['a policy does not see the error of a call', '? { error } :', '? {} :'],
  [
    'a late success is kept against the policy',
    'isSuccess && rules.keeps(rules.successSummary)',
    'isSuccess',
  ],
  ['a caught error of a call is committed', 'facts.hasThrown ||', ''],
  ['a value that cannot be stored is committed', '&& !facts.isSourceBroken;\n', ';\n'],
  [
    'a call that the policy does not keep is rolled back',
    'const isCommitted = !isFailure',
    'const isCommitted = false',
  ],
  ['the value of a timeout is the outcome', '(state.facts.isActive && !isResult)', 'false'],
];

async function mutated(text: string, planted: string): Promise<typeof settle> {
  const parts = SOURCE.split(text);
  expect(parts).toHaveLength(2);
  const { code } = transformSync(parts.join(planted), {
    swcrc: false,
    jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
    module: { type: 'es6' },
  });
  const url = `data:text/javascript,${encodeURIComponent(code)}`;
  return ((await import(url)) as { settle: typeof settle }).settle;
}

describe('the table of the settlement notices that', () => {
  it.each(MUTANTS)('%s', async (_, text, planted) => {
    const decide = await mutated(text, planted);
    const differing = TABLES.flatMap(([, rules, table]) =>
      STATE_NAMES.filter(
        (name) =>
          JSON.stringify(resultsOf(decide, rules, name)) !==
          JSON.stringify(listedResults(table, name)),
      ),
    );
    expect(differing).not.toEqual([]);
  });
});

describe('the list of calls notices that', () => {
  it.each(MUTANTS_OF_CALLS)('%s', async (_, text, planted) => {
    const decide = await mutated(text, planted);
    expect(CALLS.map(([, rules, signals]) => effectsOf(signals, rules, decide))).not.toEqual(
      CALLS.map(([, , , effects]) => effects),
    );
  });
});

describe('random orders of signals notice that', () => {
  const OF_PROMISES = [
    'a handler that still runs is released',
    'an end in vain while the handler runs is settled',
    'the key is freed after the grace although the handler runs',
    'a handler that an inner interceptor left is not waited for',
    'a success is released without its response',
    'the early response decides, not the handler',
    'a success that became a failure is released',
    'the response to a handler is not held',
    'a settled record is settled again',
    'a late end settles again',
    'a new stream reopens a settled record',
  ];

  it.each(OF_PROMISES)('%s', async (mistake) => {
    const [, text, planted] = MUTANTS.find(([name]) => name === mistake)!;
    const decide = await mutated(text, planted);
    const found = Object.values(RULES).some(
      (rules) =>
        fc.check(
          fc.property(orders, (signals) => brokenPromises(decide, rules, signals).length === 0),
          { numRuns: 20_000 },
        ).failed,
    );
    expect(found).toBe(true);
  });
});

describe.each(Object.entries(RULES))(
  'in any order of signals, the settlement of %s',
  (_, rules) => {
    it('happens once, never releases a success or a running handler, and precedes the response', () => {
      fc.assert(
        fc.property(orders, (signals) => {
          expect(brokenPromises(settle, rules, signals)).toEqual([]);
        }),
        { numRuns: dose(20_000) },
      );
    });
  },
);

describe.each(TABLES)('the settlement of %s', (_, rules, table) => {
  it.each(STATE_NAMES)('in state %s', (name) => {
    expect(resultsOf(settle, rules, name)).toEqual(listedResults(table, name));
  });
});

const RUN = ['streamStarted', 'entered'];
const RETURN = [...RUN, 'returned'];
const RETURNED_ONCE: SettlementSignal = { kind: 'returned', goesOn: true };
const COMPLETED: SettlementSignal = { kind: 'streamCompleted', stream: 1, status: 201 };
const RESPONSE: SettlementSignal = { kind: 'responseComplete', status: 201 };

describe('the settlement of a call', () => {
  it.each(CALLS)('%s', (_, rules, signals, effects) => {
    expect(effectsOf(signals, rules)).toEqual(effects);
  });
});

describe('the settlement', () => {
  it('commits a transactional success that the policy does not keep', () => {
    const rules = { ...RULES.transactional, keeps: () => false };
    expect(effectsOf([...RETURN, COMPLETED, RESPONSE], rules)).toEqual(['commit']);
    const failed: SettlementSignal = { ...RESPONSE, status: 400 };
    expect(effectsOf([...RETURN, COMPLETED, failed], rules)).toEqual(['release']);
    expect(effectsOf([...RETURN, COMPLETED, 'sourceBroken', RESPONSE], rules)).toEqual(['release']);
  });

  it('commits a transaction whose operation threw, was called again and returned', () => {
    const again = [...RUN, 'threw', 'entered', 'returned', COMPLETED, RESPONSE];
    expect(effectsOf(again, RULES.transactional)).toEqual(['keep completed']);
  });

  it('is started again by a stream that starts after another was abandoned', () => {
    const left: SettlementSignal = { kind: 'streamAbandoned', stream: 1 };
    const second: SettlementSignal = { ...COMPLETED, stream: 2 };
    const again = [...RUN, left, 'streamStarted', 'returned', second];
    expect(effectsOf([...again, 'responseStarted', RESPONSE])).toEqual(['hold', 'keep completed']);
  });

  it('waits on for a response while another call of the operation is running', () => {
    const gone: SettlementSignal = { kind: 'clientGone', hasBegun: true };
    const unkept: SettlementSignal = { ...COMPLETED, status: 503 };
    expect(
      effectsOf([...RUN, RETURNED_ONCE, unkept, gone, 'graceOver', 'idle', 'graceOver']),
    ).toEqual(['wait 1 s', 'wait 1 s', 'release']);
  });
});
