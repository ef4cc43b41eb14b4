import type { Redis } from 'ioredis';
import { loadScripts, type LuaScripts } from '../../../lib/stores/redis/lua-scripts.js';
import { withClock } from '../../support/injected-clock.js';
import type { Step } from './step.js';

type Operation = keyof LuaScripts;
export type InstrumentedScripts = Readonly<Record<Operation, string>>;

/** A change to the text of one script, to see whether the comparison notices. */
export type Mutation = (operation: Operation, text: string) => string;

/**
 * Loads the shipped scripts with two changes: the clock comes with the call, and the answer brings the
 * record as the step left it, with the instant at which Redis would delete it.
 */
export async function loadInstrumentedScripts(
  redis: Redis,
  mutate: Mutation = (_operation, text) => text,
): Promise<InstrumentedScripts> {
  const shipped = Object.entries(loadScripts()) as [Operation, { text: string }][];
  const loaded = shipped.map(async ([operation, { text }]) => {
    const clocked = withClock(mutate(operation, text), '{ ARGV[#ARGV - 1], ARGV[#ARGV] }');
    const instrumented = `local function step()
${clocked}
end
return { step(), redis.call('GET', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1]) }`;
    return [operation, await redis.script('LOAD', instrumented)] as const;
  });
  return Object.fromEntries(await Promise.all(loaded)) as Record<Operation, string>;
}

/** What each step is called with, and has to say first. */
export const NONCE = 'the nonce';

/** The arguments as the headers of the Lua files list them, then the clock. */
export function scriptArguments(step: Exclude<Step, { operation: 'lose' }>): (string | Buffer)[] {
  const clock = [String(Math.floor(step.nowUs / 1_000_000)), String(step.nowUs % 1_000_000)];
  return [...ownArguments(step), NONCE, ...clock];
}

function ownArguments(step: Exclude<Step, { operation: 'lose' }>): (string | Buffer)[] {
  switch (step.operation) {
    case 'begin': {
      const { token, fingerprint, leaseMs, maxExecutionMs, recordRetentionMs } = step.command;
      const { notAfter, onExpiredLease, origin } = step.command;
      const durations = [leaseMs, maxExecutionMs, recordRetentionMs, notAfter].map(String);
      return [token, fingerprint, ...durations, onExpiredLease, origin ?? '-'];
    }
    case 'extend': {
      const { leaseMs, recordRetentionMs } = step.command;
      return [step.lease.token, ...[step.lease.fence, leaseMs, recordRetentionMs].map(String)];
    }
    case 'complete': {
      const { state, outcome, retentionMs, fingerprint, whenGone } = step.command;
      const { token, fence } = step.lease;
      const letter = state === 'completed' ? 'c' : 'f';
      const { header, body } = outcome;
      const bytes = Buffer.from(body);
      return [
        token,
        String(fence),
        letter,
        String(retentionMs),
        fingerprint,
        whenGone,
        header,
        bytes,
        '-',
      ];
    }
    case 'release':
      return [step.lease.token, String(step.lease.fence), String(step.command.tombstoneMs), '-'];
    case 'inspect':
      return [];
  }
}
