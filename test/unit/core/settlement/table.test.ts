import { describe, expect, it } from '@jest/globals';
import { settle, type SettlementSignal } from '../../../support/internals/core.js';
import { CALLS } from './calls.js';
import { effectsOf, RULES, listedResults, resultsOf, STATE_NAMES, TABLES } from './table.js';

describe.each(TABLES)('the settlement of %s', (_, rules, table) => {
  it.each(STATE_NAMES)('in state %s', (name) => {
    expect(resultsOf(settle, rules, name)).toEqual(listedResults(table, name));
  });
});

const RUN = ['streamStarted', 'active', 'entered'];
const RETURN = [...RUN, 'returned', 'idle'];
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
    const again = [...RUN, 'threw', 'entered', 'returned', 'idle', COMPLETED, RESPONSE];
    expect(effectsOf(again, RULES.transactional)).toEqual(['keep completed']);
  });

  it('is started again by a stream that starts after another was abandoned', () => {
    const left: SettlementSignal = { kind: 'streamAbandoned', stream: 1 };
    const second: SettlementSignal = { ...COMPLETED, stream: 2 };
    const again = [...RUN, left, 'streamStarted', 'returned', 'idle', second];
    expect(effectsOf([...again, 'responseStarted', RESPONSE])).toEqual(['hold', 'keep completed']);
  });

  it('waits on for a response while another call of the operation is running', () => {
    const gone: SettlementSignal = { kind: 'clientGone', hasBegun: true };
    const unkept: SettlementSignal = { ...COMPLETED, status: 503 };
    expect(effectsOf([...RUN, 'returned', unkept, gone, 'graceOver', 'idle', 'graceOver'])).toEqual(
      ['wait 1 s', 'wait 1 s', 'release'],
    );
  });
});
