import type { Redis } from 'ioredis';
import {
  loadScripts,
  type LuaScript,
  type LuaScripts,
} from '../../../support/internals/stores/redis/scripts.js';
import { withClock } from '../../../support/clocks/injected-clock.js';
import { decodeRecord } from '../../../support/redis/decode-record.js';
import { NO_RECORD, type Observation, type Subject } from '../compare.js';
import { encodeOutcome, encodeRecord } from '../encoding.js';
import type { Missing, Mutation } from '../mutants.js';
import type { Step } from '../step.js';

type Operation = keyof LuaScripts;
type InstrumentedScripts = Readonly<Record<Operation, string>>;
type Sent = Exclude<Step, { operation: 'lose' }>;

interface RedisSubjectOptions {
  /** What the server has not. */
  readonly without?: readonly Missing[] | undefined;
  readonly mutate?: Mutation;
}

/** Runs the scripts on a Redis that no other test uses. All sequences are sent in one round trip. */
export async function redisSubject(
  redis: Redis,
  options: RedisSubjectOptions = {},
): Promise<Subject> {
  const scripts = await loadInstrumentedScripts(redis, options);
  const isWithoutMemory = options.without?.includes('memory') === true;
  return async (sequences) => {
    const pipeline = redis.pipeline();
    const limitMemory = (isLimited: boolean) =>
      pipeline.config('SET', 'maxmemory', isLimited ? 1 : 0);
    pipeline.flushall();
    limitMemory(isWithoutMemory);
    /** @returns the position of its result. */
    const send = (key: string, step: Step): number => {
      if (step.operation === 'lose') return pipeline.del(key).length - 1;
      const args = [
        scripts[step.operation],
        '3',
        key,
        ...clock(step),
        NONCE,
        ...ownArguments(step),
      ];
      const call = () => pipeline.callBuffer('EVALSHA', args).length - 1;
      if (!isWithoutMemory || step.operation !== 'begin') return call();
      // Redis rejects it if it writes, and then it must have changed nothing.
      call();
      limitMemory(false);
      const position = call();
      limitMemory(true);
      return position;
    };
    const positions = sequences.map((steps, sequence) =>
      steps.map((step) => send(`record:${sequence}`, step)),
    );
    const results = (await pipeline.exec())!;
    return sequences.map((steps, sequence) =>
      steps.map((step, at) => {
        const [error, response] = results[positions[sequence]![at]!]!;
        if (error !== null) return { reply: [String(error)], ...NO_RECORD };
        return step.operation === 'lose'
          ? { reply: undefined, ...NO_RECORD }
          : observe(step, response);
      }),
    );
  };
}

function observe(step: Sent, response: unknown): Observation {
  const [reply, record, expiresAt] = response as [unknown, Buffer | null, number];
  return {
    reply: fieldsOf(step, reply),
    record: record === null ? null : readable(latin1(record)),
    expiresAt,
  };
}

/** A text that is no record differs from every other. */
function readable(record: string): string {
  try {
    return encodeRecord(decodeRecord(record));
  } catch (error) {
    return String(error);
  }
}

/** The number of fields, before which a note stands where the reply has one. */
const FIELDS: Readonly<Partial<Record<Operation, Readonly<Record<string, number>>>>> = {
  begin: { takeover: 4, in_progress: 1, abandoned: 4, completed: 0, failed: 0 },
  inspect: { in_progress: 7, completed: 5, failed: 5, released: 5 },
};

/** The number of fields that inspect replies in every state. */
const INSPECTED = 5;

/** The kind and the fields. A reply that does not start with the nonce, such as an error, differs from every other. */
function fieldsOf({ operation }: Sent, reply: unknown): string[] {
  const [head, ...data] = Array.isArray(reply) ? (reply as unknown[]) : [reply];
  if (!Buffer.isBuffer(head)) return [String(head)];
  const [nonce, kind = '', ...fields] = latin1(head).split(' ');
  if (nonce !== NONCE) return ['no nonce', kind, ...fields];
  // The first begin of a record replies its fence, and means that instant.
  if (kind === 'acquired' && fields.length === 1) {
    fields.push(String(Math.floor(Number(fields[0]) / 1_000)), '1', '0');
  }
  const note = fields.splice(FIELDS[operation]?.[kind] ?? fields.length);
  // With a finished record, begin replies the retention left as a number.
  const numbers = data.filter((each) => !Buffer.isBuffer(each)).map(String);
  const outcome = data.filter((each) => Buffer.isBuffer(each)).flatMap(outcomeIn);
  if (operation !== 'inspect') return [kind, ...fields, ...numbers, ...outcome, ...note];
  if (kind === 'absent') return [kind];
  const common = fields.splice(0, INSPECTED);
  return [kind, ...common, ...(note.length === 0 ? ['-'] : note), ...fields, ...outcome];
}

function outcomeIn(record: Buffer): readonly string[] {
  const decoded = decodeRecord(latin1(record));
  return 'outcome' in decoded ? encodeOutcome(decoded.outcome) : ['no outcome'];
}

function latin1(bytes: Buffer): string {
  return bytes.toString('latin1');
}

/**
 * Loads the shipped scripts with two changes: the call passes the clock, as further keys, and the reply contains the record after the
 * step and the instant at which Redis would delete it.
 */
async function loadInstrumentedScripts(
  redis: Redis,
  { without = [], mutate = (_file, text) => text }: RedisSubjectOptions,
): Promise<InstrumentedScripts> {
  const shipped = Object.entries(loadScripts()) as [Operation, LuaScript][];
  const loaded = shipped.map(async ([operation, script]) => {
    const { text } = without.includes('flags') ? script : (script.flagged ?? script);
    const [, flags = '', body = ''] = /^(#![^\n]*\n)?([^]*)$/.exec(mutate(operation, text))!;
    const clocked = withClock(body, '{ KEYS[2], KEYS[3] }');
    const instrumented = `${flags}local function step()
${clocked}
end
return { step(), redis.call('GET', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1]) }`;
    return [operation, await redis.script('LOAD', instrumented)] as const;
  });
  return Object.fromEntries(await Promise.all(loaded)) as Record<Operation, string>;
}

/** Sent with each step; every reply must start with it. */
const NONCE = 'the-nonce';

function clock({ nowUs }: Step): string[] {
  return [String(Math.floor(nowUs / 1_000_000)), String(nowUs % 1_000_000)];
}

/** The arguments as the headers of the Lua files list them, after the nonce. */
function ownArguments(step: Sent): (string | Buffer)[] {
  switch (step.operation) {
    case 'begin': {
      const { token, fingerprint, leaseMs, maxExecutionMs, recordRetentionMs } = step.command;
      const { notAfter, onExpiredLease, origin = '-', note } = step.command;
      const durations = `${leaseMs} ${maxExecutionMs} ${recordRetentionMs} ${origin}`;
      const args = [token, fingerprint, String(recordRetentionMs), durations, String(notAfter)];
      return [...args, onExpiredLease, ...(note === undefined ? [] : [note])];
    }
    case 'extend':
      return [
        ownStart(step),
        ...[step.command.leaseMs, step.command.recordRetentionMs].map(String),
      ];
    case 'complete': {
      const { state, outcome, retentionMs, fingerprint, whenGone } = step.command;
      const letter = state === 'completed' ? 'c' : 'f';
      const content = `${fingerprint} ${whenGone}`;
      const { header, body } = outcome;
      return [ownStart(step), letter, String(retentionMs), content, header, Buffer.from(body)];
    }
    case 'release':
      return [ownStart(step), String(step.command.tombstoneMs)];
    case 'inspect':
      return [];
  }
}

function ownStart({ lease }: Extract<Sent, { readonly lease: object }>): string {
  return `2p${lease.fence} ${lease.token} `;
}
