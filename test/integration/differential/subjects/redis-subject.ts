import type { Redis } from 'ioredis';
import {
  loadScripts,
  type LuaScripts,
  type RedisLink,
  type ReplyReceiver,
} from '../../../support/internals/redis.js';
import { withClock } from '../../../support/clocks/injected-clock.js';
import { LAST_READ_FIRST } from '../../../support/redis/scripts.js';
import { decodeRecord } from '../../../support/redis/decode-record.js';
import { NO_RECORD, type Observation, type Subject } from '../compare.js';
import { encodeOutcome, encodeRecord } from '../encoding.js';
import type { Missing, Mutation } from '../mutants.js';
import type { Step } from '../step.js';

/** `list` has the script of inspect. */
type Operation = Step['operation'] & keyof LuaScripts;
type InstrumentedScripts = Readonly<Record<Operation, string>>;
type Sent = Exclude<Step, { operation: 'lose' }>;

interface RedisSubjectOptions {
  /** What the server has not. */
  readonly without?: readonly Missing[] | undefined;
  /** Whether each outcome is staged by SET, and each record longer than a script's first read is left to GET. */
  readonly isLarge?: boolean | undefined;
  readonly mutate?: Mutation;
}

export interface LinkOptions extends RedisSubjectOptions {
  /** Sends the steps, in the place of the client; not with `memory` in `without`. */
  readonly link: RedisLink;
  /** Whether each step waits for the reply to the one before: for a client that lets one command pass another. */
  readonly isInTurn?: boolean;
}

type Result = readonly [error: Error | null, response: unknown];

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
      const { sha1, keys, args } = commandOf(scripts, key, step, options);
      const words = [sha1, String(keys.length), ...keys, ...args];
      const call = () => pipeline.callBuffer('EVALSHA', words).length - 1;
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
      steps.map((step, at) => observe(step, results[positions[sequence]![at]!]!)),
    );
  };
}

/** The same over a link. */
export async function linkSubject(redis: Redis, options: LinkOptions): Promise<Subject> {
  const scripts = await loadInstrumentedScripts(redis, options);
  const { link, isInTurn = false } = options;
  const send = (key: string, step: Step): Promise<Result> => {
    if (step.operation === 'lose') {
      return sent((receiver) => link.eval(LOSE, [key], [], receiver));
    }
    const { sha1, keys, args } = commandOf(scripts, key, step, options);
    return sent((receiver) => link.evalsha(sha1, keys, args, receiver));
  };
  return async (sequences) => {
    await redis.flushall();
    const observed = sequences.map(async (steps, sequence) => {
      const observations: Promise<Observation>[] = [];
      for (const step of steps) {
        const result = send(`record:${sequence}`, step);
        observations.push(result.then((received) => observe(step, received)));
        if (isInTurn) await result;
      }
      return Promise.all(observations);
    });
    return Promise.all(observed);
  };
}

const LOSE = "return redis.call('DEL', KEYS[1])";

/** The words after EVALSHA. */
function commandOf(
  scripts: InstrumentedScripts,
  key: string,
  step: Sent,
  { isLarge = false }: RedisSubjectOptions,
) {
  return {
    sha1: scripts[scriptOf(step)],
    keys: [key, ...clock(step), `${key}:staged`],
    args: [NONCE, ...ownArguments(step, isLarge ? LAST_READ_FIRST : 0)],
  };
}

function sent(send: (receiver: ReplyReceiver) => void): Promise<Result> {
  return new Promise((resolve) => {
    send({
      isOwn: () => true,
      onReply: (reply) => resolve([null, reply]),
      onError: (error) => resolve([error as Error, undefined]),
    });
  });
}

function scriptOf({ operation }: Sent): Operation {
  return operation === 'list' ? 'inspect' : operation;
}

function observe(step: Step, [error, response]: Result): Observation {
  if (error !== null) return { reply: [String(error)], ...NO_RECORD };
  if (step.operation === 'lose') return { reply: undefined, ...NO_RECORD };
  const [reply, record, expiresAt, staged] = response as [unknown, Buffer | null, number, number];
  if (staged === 1) return { reply: ['a staged record is left'], ...NO_RECORD };
  return {
    reply: fieldsOf(step, withRecord(reply, record)),
    record: record === null ? null : readable(latin1(record)),
    expiresAt,
  };
}

/** A reply of begin with the record that GET would read, if it has only the first two lines of it. */
function withRecord(reply: unknown, record: Buffer | null): unknown {
  const [head, leftMs, lines] = Array.isArray(reply) ? (reply as unknown[]) : [];
  if (!Array.isArray(lines)) return reply;
  const [, firstTwo = ''] = /^([^\n]*\n[^\n]*\n)/.exec(latin1(record ?? Buffer.alloc(0))) ?? [];
  return String(lines[0]) === firstTwo ? [head, leftMs, record] : 'other lines';
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
  inspect: { in_progress: 8, completed: 6, failed: 6, released: 6 },
};

/** The number of fields that inspect replies in every state. */
const INSPECTED = 6;

/** The kind and the fields. A reply that does not start with the nonce, such as an error, differs from every other. */
function fieldsOf(step: Sent, reply: unknown): string[] {
  const operation = scriptOf(step);
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
 * step, the instant at which Redis would delete it, and whether a staged record is left.
 */
async function loadInstrumentedScripts(
  redis: Redis,
  { without = [], isLarge = false, mutate = (_file, text) => text }: RedisSubjectOptions,
): Promise<InstrumentedScripts> {
  const shipped = loadScripts();
  const loaded = OPERATIONS.map(async (operation) => {
    const script = shipped[operation];
    const { text } = without.includes('flags') ? script : (script.flagged ?? script);
    const mutated = mutate(operation, text);
    const [, flags = '', body = ''] = /^(#![^\n]*\n)?([^]*)$/.exec(mutated)!;
    const staging = isLarge && operation === 'complete' ? stagedFirst(shipped, mutate) : '';
    const instrumented = `${flags}local clock = { KEYS[2], KEYS[3] }
local function step()
${staging}
${withClock(body, 'clock')}
end
return { step(), redis.call('GET', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1]), redis.call('EXISTS', KEYS[4]) }`;
    return [operation, await redis.script('LOAD', instrumented)] as const;
  });
  return Object.fromEntries(await Promise.all(loaded)) as Record<Operation, string>;
}

const OPERATIONS = ['begin', 'extend', 'complete', 'release', 'inspect', 'amend'] as const;

/** What a client does before complete: it stages the record that a first attempt would leave, with room for a note. */
function stagedFirst(shipped: LuaScripts, mutate: Mutation): string {
  const text = mutate('complete-large', shipped['complete-large'].text);
  return `local fence, token = string.match(ARGV[2], '^2p(%d+) (%S+) $')
local line = fence .. ' ' .. token .. ' 1 0 ' .. string.match(ARGV[5], '^%S+')
if ARGV[9] then line = line .. ' ' .. string.rep('\\127', 240) end
local record = '2' .. ARGV[3] .. line .. '\\n0000000000000\\n' .. ARGV[6] .. '\\n' .. ARGV[7]
redis.call('SET', KEYS[4], record, 'PX', 60000)
local function large(KEYS, ARGV)
${withClock(text, 'clock')}
end
local reply = large({ KEYS[1], KEYS[4] }, { ARGV[1], ARGV[4], ARGV[8], ARGV[9] })
if reply ~= ARGV[1] .. ' other' then return reply end`;
}

const LETTERS = { in_progress: 'p', completed: 'c', failed: 'f', released: 'r' } as const;

/** Sent with each step; every reply must start with it. */
const NONCE = 'the-nonce';

function clock({ nowUs }: Step): string[] {
  return [String(Math.floor(nowUs / 1_000_000)), String(nowUs % 1_000_000)];
}

/** The arguments as the headers of the Lua files list them, after the nonce. */
function ownArguments(step: Sent, largest: number): (string | Buffer)[] {
  switch (step.operation) {
    case 'begin': {
      const { token, fingerprint, leaseMs, maxExecutionMs, recordRetentionMs } = step.command;
      const { notAfter, onExpiredLease, origin = '-', note } = step.command;
      const durations = `${leaseMs} ${maxExecutionMs} ${recordRetentionMs} ${origin}`;
      const retention = String(recordRetentionMs);
      const args = [token, fingerprint, retention, durations, String(notAfter), String(largest)];
      return [...args, onExpiredLease, ...(note === undefined ? [] : [note])];
    }
    case 'extend':
      return [
        ownStart(step),
        ...[step.command.leaseMs, step.command.recordRetentionMs].map(String),
      ];
    case 'complete': {
      const { state, outcome, retentionMs, fingerprint, whenGone, note } = step.command;
      const letter = state === 'completed' ? 'c' : 'f';
      const content = `${fingerprint} ${whenGone}`;
      const { header, body } = outcome;
      const written = [letter, String(retentionMs), content, header, Buffer.from(body)];
      return [ownStart(step), ...written, ...inFront(note)];
    }
    case 'release':
      return [ownStart(step), String(step.command.tombstoneMs), ...inFront(step.command.note)];
    case 'inspect':
      return [];
    case 'list':
      return ['head'];
    case 'amend': {
      const { token, expected, change, evenIfRunning, notBefore, note = '' } = step.command;
      const seen = `${LETTERS[expected.state]}${expected.fence}`;
      const args = [token, seen, String(notBefore), evenIfRunning ? 'yes' : 'no', note, ''];
      if (change.kind === 'release') {
        return [...args, 'r', String(change.tombstoneMs), change.isTakeover ? '1' : '0'];
      }
      const { outcome, retentionMs = '' } = change;
      const letter = change.kind === 'keep' ? 'k' : LETTERS[change.state];
      const written = outcome === undefined ? [] : [outcome.header, Buffer.from(outcome.body)];
      return [...args, letter, String(retentionMs), ...written];
    }
  }
}

/** After no notification. */
function inFront(note: string | undefined): string[] {
  return note === undefined ? [] : ['', note];
}

function ownStart({ lease }: Extract<Sent, { readonly lease: object }>): string {
  return `2p${lease.fence} ${lease.token} `;
}
