import type { Redis } from 'ioredis';
import { loadScripts, type LuaScripts } from '../../../support/internals/stores/redis/scripts.js';
import { withClock } from '../../../support/clocks/injected-clock.js';
import { NO_RECORD, type Observation, type Subject } from '../compare.js';
import type { Mutation } from '../mutants.js';
import type { Step } from '../step.js';

type Operation = keyof LuaScripts;
type InstrumentedScripts = Readonly<Record<Operation, string>>;

/** Runs the scripts on a dedicated Redis. All sequences are sent in one round trip. */
export async function redisSubject(redis: Redis, mutate?: Mutation): Promise<Subject> {
  const scripts = await loadInstrumentedScripts(redis, mutate);
  return async (sequences) => {
    const pipeline = redis.pipeline();
    pipeline.flushall();
    sequences.forEach((steps, sequence) => {
      const key = `record:${sequence}`;
      for (const step of steps) {
        if (step.operation === 'lose') pipeline.del(key);
        else {
          const args = [scripts[step.operation], '1', key, ...scriptArguments(step)];
          pipeline.callBuffer('EVALSHA', args);
        }
      }
    });
    const results = (await pipeline.exec())!.slice(1).values();
    return sequences.map((steps) =>
      steps.map(({ operation }) => {
        const [error, response] = results.next().value!;
        if (error !== null) throw error;
        return operation === 'lose' ? { reply: undefined, ...NO_RECORD } : observe(response);
      }),
    );
  };
}

function observe(response: unknown): Observation {
  const [reply, record, expiresAt] = response as [unknown[], Buffer | null, number];
  return {
    // A script that fails returns an error instead of fields.
    reply: Array.isArray(reply) ? afterNonce(reply.map(text)) : [String(reply)],
    record: record === null ? null : text(record),
    expiresAt,
  };
}

/** Makes a reply without the leading nonce differ from every other. */
function afterNonce([nonce, ...fields]: string[]): string[] {
  return nonce === NONCE ? fields : ['no nonce', ...fields];
}

function text(field: unknown): string {
  return Buffer.isBuffer(field) ? field.toString('latin1') : String(field);
}

/**
 * Loads the shipped scripts with two changes: the call passes the clock, and the reply contains the record after the
 * step and the instant at which Redis would delete it.
 */
async function loadInstrumentedScripts(
  redis: Redis,
  mutate: Mutation = (_file, text) => text,
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

/** Sent with each step; every reply must start with it. */
const NONCE = 'the nonce';

/** The arguments as the headers of the Lua files list them, then the clock. */
function scriptArguments(step: Exclude<Step, { operation: 'lose' }>): (string | Buffer)[] {
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
