import type { Redis } from 'ioredis';
import type { StoredRecord } from '../../../lib/core/record.js';
import { NONCE, scriptArguments, type InstrumentedScripts } from './instrumented-scripts.js';
import type { Fields } from './redis-encoding.js';
import { expected, expectedValue } from './reference.js';
import type { Step } from './step.js';

/** Where the script and the reference part. */
export interface Difference {
  /** Index of the step in its sequence. */
  readonly at: number;
  readonly reference: Observation;
  readonly script: Observation;
}

/** What can be seen of a step from outside. */
interface Observation {
  readonly reply: Fields | undefined;
  readonly value: string | null;
  readonly expiresAt: number;
}

/** Called with every step and what the reference made of it. */
export type Watcher = (step: Step, reply: Fields, before: StoredRecord | undefined) => void;

interface Check {
  readonly sequence: number;
  readonly at: number;
  readonly reference: Observation;
}

/**
 * Runs sequences, each on a record of its own, on the reference and in one round trip on the scripts.
 *
 * @returns for every sequence its first difference, or undefined.
 */
export async function compare(
  redis: Redis,
  scripts: InstrumentedScripts,
  sequences: readonly (readonly Step[])[],
  watch: Watcher = () => undefined,
): Promise<(Difference | undefined)[]> {
  const pipeline = redis.pipeline();
  const checks: Check[] = [];
  pipeline.flushall();
  sequences.forEach((steps, sequence) => {
    let record: StoredRecord | undefined;
    steps.forEach((step, at) => {
      const before = record;
      const { reply, record: after } = expected(before, step);
      record = after;
      checks.push({ sequence, at, reference: { reply, ...expectedValue(after) } });
      const key = `record:${sequence}`;
      if (step.operation === 'lose') {
        pipeline.del(key);
      } else {
        const args = [scripts[step.operation], '1', key, ...scriptArguments(step)];
        pipeline.callBuffer('EVALSHA', args);
        if (reply !== undefined) watch(step, reply, before);
      }
    });
  });
  const results = (await pipeline.exec())!.slice(1);
  const differences: (Difference | undefined)[] = sequences.map(() => undefined);
  checks.forEach(({ sequence, at, reference }, index) => {
    const [error, answer] = results[index]!;
    if (error !== null) throw error;
    const script = reference.reply === undefined ? reference : observe(answer);
    if (!equal(reference, script)) differences[sequence] ??= { at, reference, script };
  });
  return differences;
}

function observe(answer: unknown): Observation {
  const [reply, value, expiresAt] = answer as [unknown[], Buffer | null, number];
  return {
    // A script that fails answers with an error instead of fields.
    reply: Array.isArray(reply) ? afterNonce(reply.map(text)) : [String(reply)],
    value: value === null ? null : text(value),
    expiresAt,
  };
}

/** A reply that does not begin with the nonce differs from every other. */
function afterNonce([nonce, ...fields]: string[]): string[] {
  return nonce === NONCE ? fields : ['no nonce', ...fields];
}

function text(field: unknown): string {
  return Buffer.isBuffer(field) ? field.toString('latin1') : String(field);
}

function equal(one: Observation, other: Observation): boolean {
  return (
    one.value === other.value &&
    one.expiresAt === other.expiresAt &&
    one.reply?.length === other.reply?.length &&
    (one.reply ?? []).every((field, index) => field === other.reply?.[index])
  );
}
